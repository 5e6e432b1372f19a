// A process of its own: long, and it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { modeFallsBack } from './capture/tool-lost.ts'
import { iptablesMode, nftablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')
const options = { skip: why !== '' && why }

t.test('iptables mode that loses its tool makes way for userspace', options, t =>
  modeFallsBack(t, iptablesMode('nft'), [{ lost: 'iptables', to: 'userspace' }]),
)

t.test('nftables mode makes way for iptables, and that one for userspace', options, t =>
  modeFallsBack(t, nftablesMode, [
    { lost: 'nft', to: 'iptables' },
    { lost: 'iptables', back: 'nft', to: 'userspace' },
  ]),
)

t.test('so it does with Services that the relay carries', options, t =>
  modeFallsBack(
    t,
    nftablesMode,
    [
      { lost: 'nft', to: 'iptables' },
      { lost: 'iptables', back: 'nft', to: 'userspace' },
    ],
    { isRelayed: true },
  ),
)
