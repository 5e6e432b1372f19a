import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrix } from './parts/capture/matrix.ts'
import { iptablesCapture } from './parts/capture/ways.ts'

const why = await whyNoNetns('iptables', 'nft')
const way = iptablesCapture('nft')

t.test(`with rules of ${way.label}`, { skip: why !== '' && why }, t =>
  captureMatrix(t, way),
)
