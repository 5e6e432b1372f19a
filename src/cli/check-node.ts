import type { Probed } from '../capture/choose-capture.ts'
import type { RelayChoice } from '../relay/choose-relay.ts'
import { aligned, type Cells, columnWidths } from './columns.ts'

const needsNothing = { usable: true, detail: 'changes nothing on the host' }

/** Modes that kube-proxy has, and Usher not yet. */
const laterModes = ['iptables', 'ipvs', 'nftables']

/**
 * What of Usher's works on this node, for people. `probed` in the order of preference;
 * `relay`: what `--relay auto` chooses.
 */
export const nodeReport = (
  probed: readonly Probed[],
  relay: RelayChoice,
  colour: boolean,
): string => {
  const captures = [
    ...probed,
    { name: 'listen', ...needsNothing },
    { name: 'none', ...needsNothing },
  ]
  const first = captures.find(({ usable }) => usable)?.name ?? 'listen'
  const rows: Cells[] = [
    ['mode', 'userspace', { text: 'usable', style: 'green' }, ''],
    ...laterModes.map((name): Cells => [
      'mode',
      name,
      { text: 'not usable', style: 'yellow' },
      'this version of Usher has userspace only',
    ]),
    ...captures.map(probe => row('capture', probe)),
    ...relaysOf(relay).map(probe => row('relay', probe)),
  ]
  const widths = columnWidths(rows)
  const lines = rows.map(row => aligned(row, widths, '', colour).trimEnd())
  return `${lines.join('\n')}\n\n--capture auto takes ${first} here, --relay auto ${relay.name}\n`
}

const row = (what: string, { name, usable, detail }: RelayProbed | Probed): Cells => [
  what,
  name,
  usable ? { text: 'usable', style: 'green' } : { text: 'not usable', style: 'yellow' },
  detail,
]

interface RelayProbed {
  readonly name: string
  readonly usable: boolean
  readonly detail: string
}

const relaysOf = ({ name, detail, passedOver }: RelayChoice): readonly RelayProbed[] => [
  ...passedOver.map(one => ({ ...one, usable: false })),
  ...(name === 'linux' ? [{ name, usable: true, detail }] : []),
  { name: 'portable', usable: true, detail: 'runs wherever Node does' },
]
