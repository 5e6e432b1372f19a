// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { modeChangesUnderLoad } from './capture/mode-changes.ts'
import {
  iptablesCapture,
  iptablesMode,
  localCapture,
  nftablesCapture,
  nftablesMode,
} from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const iptables = iptablesCapture('nft')
const mode = iptablesMode('nft')

// They mostly wait: for tools, and for SYNs to come again.
t.jobs = 2
t.setTimeout(900_000)

const sequences = {
  'captures and a mode': [nftablesCapture, mode, iptables, mode, nftablesCapture],
  captures: [nftablesCapture, iptables, nftablesCapture, localCapture],
  'nftables mode and captures': [nftablesMode, iptables, nftablesMode, localCapture],
} as const

for (const [what, ways] of Object.entries(sequences))
  t.test(
    `nobody is refused while another way takes over, however slowly: ${what}`,
    { skip: why !== '' && why },
    t => modeChangesUnderLoad(t, ways, { toolSeconds: 0.3 }),
  )
