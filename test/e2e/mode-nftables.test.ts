// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { captureMatrix } from './capture/matrix.ts'
import { modeChangesUnderLoad } from './capture/mode-changes.ts'
import { iptablesMode, nftablesCapture, nftablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')
const options = { skip: why !== '' && why }
const way = nftablesMode

t.test(`with ${way.label}`, options, t => captureMatrix(t, way))

t.test('a mode that follows another leaves nobody without Services', options, t =>
  modeChangesUnderLoad(t, [
    iptablesMode('nft'),
    way,
    nftablesCapture,
    way,
    iptablesMode('nft'),
  ]),
)
