// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { captureMatrix } from './capture/matrix.ts'
import { iptablesCapture } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')
const way = iptablesCapture('nft')

t.test(`with rules of ${way.label}`, { skip: why !== '' && why }, t =>
  captureMatrix(t, way),
)
