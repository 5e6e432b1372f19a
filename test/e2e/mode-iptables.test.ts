// A process of its own: long, and it mostly waits.
import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrix } from './capture/matrix.ts'
import { iptablesMode } from './capture/ways.ts'

const why = await whyNoNetns('iptables', 'nft')
const options = { skip: why !== '' && why }
const way = iptablesMode('nft')

t.test(`with ${way.label}`, options, t => captureMatrix(t, way))
