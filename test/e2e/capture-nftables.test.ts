import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrix } from './parts/capture/matrix.ts'
import { nftablesCapture } from './parts/capture/ways.ts'

const why = await whyNoNetns('nft', 'iptables')

t.test('with rules of nftables', { skip: why !== '' && why }, t =>
  captureMatrix(t, nftablesCapture),
)
