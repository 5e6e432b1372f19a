import type { Probed } from '../capture/choose-capture.ts'
import { aligned, type Cells, columnWidths } from './columns.ts'

const needsNothing = { usable: true, detail: 'changes nothing on the host' }

/** Modes that kube-proxy has, and Usher not yet. */
const laterModes = ['iptables', 'ipvs', 'nftables']

/** What of Usher's works on this node, for people. `probed` in the order of preference. */
export const nodeReport = (probed: readonly Probed[], colour: boolean): string => {
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
    ...captures.map(({ name, usable, detail }): Cells => [
      'capture',
      name,
      usable
        ? { text: 'usable', style: 'green' }
        : { text: 'not usable', style: 'yellow' },
      detail,
    ]),
  ]
  const widths = columnWidths(rows)
  const lines = rows.map(row => aligned(row, widths, '', colour).trimEnd())
  return `${lines.join('\n')}\n\n--capture auto takes ${first} here\n`
}
