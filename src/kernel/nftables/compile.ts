import { clientsPart, guards } from '../nft/clients.ts'
import type { Element } from '../elements/element-changes.ts'
import type { Part } from '../nft/parts.ts'
import type { Compiled } from '../nft/wanted-table.ts'
import { protocolNumber } from '../nft/tables.ts'
import type { ServicePort, Target, Vip } from '../../model/snapshot.ts'
import type { Context } from './context.ts'
import { pick, type Role } from './picks.ts'

/** Pure: the same for the same ServicePort and context. */
export const compile = (servicePort: ServicePort, context: Context): Compiled => {
  const compiled: Filled = { elements: [], shared: [], parts: [] }
  for (const vip of servicePort.vips) compileVip(servicePort, vip, context, compiled)
  compiled.shared.push(...hairpins(servicePort, context))
  return compiled
}

interface Filled extends Compiled {
  readonly elements: Element[]
  readonly shared: Element[]
  readonly parts: Part[]
}

/** What leads those that dial a VIP, and what keeps them out. */
const names = {
  vip: {
    all: 'service-ips',
    fromNode: 'from-node-service-ips',
    none: 'no-endpoint-services',
  },
  'node-port': {
    all: 'service-nodeports',
    fromNode: 'from-node-nodeports',
    none: 'no-endpoint-nodeports',
  },
} as const

const compileVip = (
  servicePort: ServicePort,
  vip: Vip,
  context: Context,
  into: Filled,
): void => {
  const { internal, external, externalFromNode, externalTrafficPolicy } = servicePort
  const { kind, address, port } = vip
  const isNodePort = kind === 'NodePort'
  const dialled = { kind: isNodePort ? 'node-port' : 'vip', address, port } as const
  const sets = names[dialled.kind]
  const ofProtocol = `${protocolNumber[servicePort.protocol]} . ${port}`
  const key = isNodePort ? ofProtocol : `${address} . ${ofProtocol}`
  const lead = (set: string, role: Role, { verdict, endpoints }: Target): void => {
    if (verdict !== 'forward') return
    const { chain, parts, elements } = pick(
      servicePort,
      role,
      endpoints,
      dialled,
      context,
    )
    into.parts.push(...parts)
    into.elements.push(...elements, { set, key, value: `goto ${chain}` })
  }
  const isInside = kind === 'ClusterIP'
  const isLocal = !isInside && externalTrafficPolicy === 'Local'
  const target = isInside ? internal : external
  lead(
    sets.all,
    isInside ? 'cluster-ip' : isLocal ? 'external-local' : 'external',
    target,
  )
  if (isLocal) lead(sets.fromNode, 'from-node', externalFromNode)
  // Looked up after the address is changed: who was led somewhere by then is not kept out.
  if (target.verdict !== 'forward')
    into.elements.push({
      set: sets.none,
      key,
      value: target.verdict === 'reject' ? 'goto refuse' : 'drop',
    })
  if (isInside) into.shared.push({ set: 'cluster-ips', key: address, value: '' })
  if (kind === 'LoadBalancerIP') guard(servicePort, key, context, into)
}

/** loadBalancerSourceRanges. */
const guard = (
  { sourceRanges }: ServicePort,
  key: string,
  { words }: Context,
  into: Filled,
): void => {
  if (!guards(sourceRanges)) return
  const part = clientsPart(`${words.family} saddr`, sourceRanges)
  into.parts.push(part)
  into.elements.push({ set: 'firewall-ips', key, value: `goto ${part.name}` })
}

/** What comes back to its sender has to be answered through this node. */
const hairpins = (
  { protocol, reachable }: ServicePort,
  { isHere }: Context,
): readonly Element[] =>
  reachable
    .filter(({ nodeName }) => isHere(nodeName))
    .map(({ address, port }) => ({
      set: 'hairpin-connections',
      key: `${address} . ${address} . ${protocolNumber[protocol]} . ${port}`,
      value: '',
    }))
