import type { VipRule } from '../vip-rule.ts'
import { clientsChain, guards } from '../../kernel/nft/clients.ts'
import type { Element } from '../../kernel/elements/element-changes.ts'
import { protocolNumber } from '../../kernel/nft/tables.ts'

/** The sets and maps whose elements follow from the rules. */
type SetName =
  | 'vips'
  | 'vips-of-node'
  | 'vips-outside'
  | 'vips-from-node'
  | 'node-ports'
  | 'node-ports-of-node'
  | 'node-ports-outside'
  | 'node-ports-from-node'
  | 'guarded'
  | 'cluster-ips'

export interface CaptureElement extends Element {
  readonly set: SetName
}

/** Those that rules have in common. */
export const sharedElementsOf = ({
  kind,
  address,
}: VipRule): readonly CaptureElement[] =>
  kind === 'ClusterIP' && address !== undefined
    ? [{ set: 'cluster-ips', key: address, value: '' }]
    : []

/** The elements that one rule alone stands for. */
export const elementsOf = (rule: VipRule): readonly CaptureElement[] => {
  const { address, protocol, port, to, outside, fromNode, allowedClients } = rule
  const service = `${protocolNumber[protocol]} . ${port}`
  const key = address === undefined ? service : `${address} . ${service}`
  const sets = address === undefined ? nodePortSets : vipSets
  const elements: CaptureElement[] = []
  if (address !== undefined && guards(allowedClients)) {
    elements.push({ set: 'guarded', key, value: `jump ${clientsChain(allowedClients)}` })
  }
  const value = `${to.address} . ${to.port}`
  if (outside === 'forward') elements.push({ set: sets.forward, key, value })
  else if (fromNode === 'forward') elements.push({ set: sets.ofNode, key, value })
  if (outside !== 'forward') {
    elements.push({ set: sets.outside, key, value: verdicts[outside] })
  }
  if (fromNode !== 'forward') {
    elements.push({ set: sets.fromNode, key, value: verdicts[fromNode] })
  }
  return elements
}

const vipSets = {
  forward: 'vips',
  ofNode: 'vips-of-node',
  outside: 'vips-outside',
  fromNode: 'vips-from-node',
} as const

const nodePortSets = {
  forward: 'node-ports',
  ofNode: 'node-ports-of-node',
  outside: 'node-ports-outside',
  fromNode: 'node-ports-from-node',
} as const

const verdicts = { reject: 'goto refuse', drop: 'drop' } as const
