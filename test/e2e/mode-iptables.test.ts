// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { captureMatrix } from './capture/matrix.ts'
import { iptablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')
const options = { skip: why !== '' && why }
const way = iptablesMode('nft')

t.test(`with ${way.label}`, options, t => captureMatrix(t, way))
