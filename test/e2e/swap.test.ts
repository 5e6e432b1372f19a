// A process of its own: long, and it mostly waits.
import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { swapUnderLoad } from './capture/swap.ts'
import { iptablesCapture, iptablesMode, nftablesCapture } from './capture/ways.ts'

const why = await whyNoNetns('nft', 'iptables', 'conntrack')
t.setTimeout(120_000)

for (const way of [nftablesCapture, iptablesCapture('nft'), iptablesMode('nft')])
  t.test(`kube-proxy and back with ${way.label}`, { skip: why !== '' && why }, t =>
    swapUnderLoad(t, way),
  )
