// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { udpFlowsEnd } from './capture/udp-flows-end.ts'
import { iptablesMode, nftablesCapture, nftablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
t.setTimeout(500_000)
// Each mostly waits for clients who are not answered.
t.jobs = 3

for (const way of [iptablesMode('nft'), nftablesMode, nftablesCapture])
  t.test(`UDP flows end with what goes, ${way.label}`, { skip: why !== '' && why }, t =>
    udpFlowsEnd(t, way),
  )
