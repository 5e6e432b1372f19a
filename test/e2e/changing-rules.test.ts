// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { answersUnderChanges } from './capture/changing-rules.ts'
import { nftablesCapture } from './capture/ways.ts'

const why = await netnsProblem('nft', 'iptables', 'conntrack')
t.setTimeout(500_000)

for (const relay of ['linux', 'portable'])
  t.test(
    `answers are whole while rules change, ${relay} relay`,
    { skip: why !== '' && why },
    t => answersUnderChanges(t, nftablesCapture, `--relay=${relay}`),
  )
