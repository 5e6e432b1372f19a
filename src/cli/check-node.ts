import type { Probed } from '../proxy/capture/create-capture.ts'
import type { RelayChoice } from '../relay/choose-relay.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { permissionAdvice } from '../kernel/permission-advice.ts'
import { privilegesText } from '../relay/privileges.ts'
import { type Cells, tableLines } from './text-table.ts'

const needsNothing = { usable: true, detail: 'changes nothing on the host' }

/** What of Usher's works on this node. */
export interface NodeFindings {
  /** The kernel modes. */
  readonly modes: readonly Finding[]
  /** In the order of preference. */
  readonly captures: readonly Probed[]
  /** Whether processes can be led as they connect. */
  readonly connectTime: Omit<Finding, 'name'>
  /** What `--relay auto` chooses. */
  readonly relay: ChosenRelay
  /** As in bridges.ts. */
  readonly bridges: string
}

export interface Finding {
  readonly name: string
  readonly usable: boolean
  readonly detail: string
}

/** The same for people. */
export const nodeReport = (
  { modes, captures: probed, connectTime, relay, bridges }: NodeFindings,
  colour: boolean,
): string => {
  const captures = [
    ...probed,
    { name: 'listen', ...needsNothing },
    { name: 'none', ...needsNothing },
  ]
  const first = captures.find(({ usable }) => usable)?.name ?? 'listen'
  const rows: Cells[] = [
    ...modes.map(mode => row('mode', mode)),
    row('mode', { name: 'userspace', usable: true, detail: '' }),
    ...captures.map(probe => row('capture', probe)),
    ...relaysOf(relay).map(probe => row('relay', probe)),
    row('connect-time', { name: 'on', ...connectTime }),
  ]
  const lines = tableLines(rows, colour)
  const iptables = modes.find(({ name }) => name === 'iptables')?.usable === true
  const empty = `default --proxy-mode on this node: ${iptables ? 'iptables' : 'userspace'}`
  const taken = `in userspace mode --capture auto takes ${first}, --relay auto ${relay.name}`
  const warning = bridges === '' ? '' : `warning: ${bridges}\n`
  return `${lines.join('\n')}\n\n${empty}\n${taken}\n${processText(relay)}${warning}`
}

/** What the process of the relay would be allowed to do. */
const processText = ({ ownProcess }: ChosenRelay): string => {
  if (ownProcess?.privileges === undefined) return ''
  const { privileges, excess } = ownProcess
  const more = excess === '' ? '' : `; more than it needs: ${excess}`
  return `the relay's process runs as ${privilegesText(privileges)}${more}\n`
}

const row = (what: string, { name, usable, detail }: Finding): Cells => [
  what,
  name,
  usable ? { text: 'usable', style: 'green' } : { text: notUsable, style: 'yellow' },
  usable ? detail : unusableText(detail),
]

export const notUsable = 'not usable'

/** With what may help. */
export const unusableText = (detail: string): string =>
  [detail, permissionAdvice(detail)].filter(Boolean).join('; ')

/** Those that there are, the best first. */
export const relaysOf = ({
  name,
  detail,
  passedOver,
}: RelayChoice): readonly Finding[] => [
  ...passedOver.map(one => ({ ...one, usable: false })),
  ...(name === 'linux' ? [{ name, usable: true, detail }] : []),
  { name: 'portable', usable: true, detail: 'runs wherever Node does' },
]
