// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { captureCells } from './capture/matrix.ts'
import { iptablesCapture, iptablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')

for (const way of [iptablesCapture('legacy'), iptablesMode('legacy')])
  t.test(`with rules of ${way.label}`, { skip: why !== '' && why }, t =>
    captureCells(t, way),
  )
