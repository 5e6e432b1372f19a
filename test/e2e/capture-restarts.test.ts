// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { restartsUnderLoad } from './capture/restarts.ts'
import { iptablesCapture, nftablesCapture } from './capture/ways.ts'

const why = await netnsProblem('nft', 'iptables')

// They mostly wait: for SYNs to come again.
t.jobs = 3

for (const way of [nftablesCapture, iptablesCapture('nft'), iptablesCapture('legacy')])
  t.test(`restarts with ${way.label}`, { skip: why !== '' && why }, t =>
    restartsUnderLoad(t, way),
  )
