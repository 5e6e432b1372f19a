// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { captureMatrix } from './capture/matrix.ts'
import { localCapture } from './capture/ways.ts'

const why = await netnsProblem('nft', 'iptables')

t.test('without rules of the kernel', { skip: why !== '' && why }, t =>
  captureMatrix(t, localCapture),
)
