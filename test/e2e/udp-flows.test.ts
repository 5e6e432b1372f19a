// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { udpFlowsStay } from './capture/udp-flows-stay.ts'
import { iptablesCapture, iptablesMode, nftablesCapture } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const options = { skip: why !== '' && why }
t.setTimeout(500_000)

for (const way of [iptablesMode('nft'), iptablesMode('legacy')])
  t.test(`UDP clients keep healthy endpoints with ${way.label}`, options, t =>
    udpFlowsStay(t, way),
  )

for (const relay of ['linux', 'portable'])
  for (const way of [nftablesCapture, iptablesCapture('nft')])
    t.test(`and with ${way.label}, ${relay} relay`, options, t =>
      udpFlowsStay(t, way, `--relay=${relay}`),
    )
