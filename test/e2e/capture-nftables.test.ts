// A process of its own: long, and it mostly waits.
import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrix } from './capture/matrix.ts'
import { nftablesCapture } from './capture/ways.ts'

const why = await whyNoNetns('nft', 'iptables')

t.test('with rules of nftables', { skip: why !== '' && why }, t =>
  captureMatrix(t, nftablesCapture),
)
