// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { swapUnderLoad } from './capture/swap.ts'
import {
  iptablesCapture,
  iptablesMode,
  nftablesCapture,
  nftablesMode,
} from './capture/ways.ts'

const why = await netnsProblem('nft', 'iptables', 'conntrack')
t.setTimeout(900_000)

const ways = {
  iptables: [nftablesCapture, iptablesCapture('nft'), iptablesMode('nft'), nftablesMode],
  nftables: [nftablesMode, iptablesMode('nft'), nftablesCapture],
} as const

for (const mode of ['iptables', 'nftables'] as const)
  for (const way of ways[mode])
    t.test(
      `kube-proxy in ${mode} mode and back with ${way.label}`,
      { skip: why !== '' && why },
      t => swapUnderLoad(t, way, mode),
    )
