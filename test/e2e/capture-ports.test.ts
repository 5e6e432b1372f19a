// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { ownServiceAnswers } from './capture/own-service-answers.ts'
import { iptablesCapture, nftablesCapture } from './capture/ways.ts'

const why = await netnsProblem('nft', 'iptables', 'conntrack')

// They mostly wait: for SYNs to come again.
t.jobs = 3
t.setTimeout(900_000)

const pairs = [
  [nftablesCapture, undefined],
  [iptablesCapture('nft'), nftablesCapture],
  [iptablesCapture('legacy'), nftablesCapture],
] as const

for (const [way, another] of pairs)
  t.test(
    `everybody's own Service answers, with ${way.label}`,
    { skip: why !== '' && why },
    t => ownServiceAnswers(t, way, another),
  )
