import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrix } from './parts/capture/matrix.ts'
import { localCapture } from './parts/capture/ways.ts'

const why = await whyNoNetns('nft', 'iptables')

t.test('without rules of the kernel', { skip: why !== '' && why }, t =>
  captureMatrix(t, localCapture),
)
