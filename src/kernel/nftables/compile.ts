import { clientsPart, guards, disjoint } from '../nft/clients.ts'
import type { Element } from '../elements/element-changes.ts'
import type { Part, ChainPart } from '../nft/parts.ts'
import type { Compiled } from '../nft/wanted-table.ts'
import { protocolNumber, type FamilyKeywords, familyKeywords } from '../nft/tables.ts'
import type { ServicePort, Target, Vip, Endpoint } from '../../model/snapshot.ts'
import { shortHash } from '../../util/short-hash.ts'
import {
  type AddressPort,
  joinHostPort,
  type IpFamily,
  isWildcard,
} from '../../util/ip.ts'
import { proxyAddressOf } from '../proxy-address.ts'
import type { KernelSettings } from '../proxier.ts'

/** Pure: the same for the same ServicePort and context. */
export const compile = (servicePort: ServicePort, context: Context): Compiled => {
  const compiled: Filled = { elements: [], shared: [], parts: [] }
  const { vips, steeredTo } = servicePort
  for (const [at, vip] of vips.entries())
    compileVip(servicePort, vip, steeredTo?.[at], context, compiled)
  if (steeredTo === undefined) compiled.shared.push(...hairpins(servicePort, context))
  return compiled
}

interface Filled extends Compiled {
  readonly elements: Element[]
  readonly shared: Element[]
  readonly parts: Part[]
}

/** What leads those that dial a VIP, to endpoints or to the relay, and what keeps them out. */
const names = {
  vip: {
    all: 'service-ips',
    fromNode: 'from-node-service-ips',
    none: 'no-endpoint-services',
    relayed: 'relayed-service-ips',
    relayedFromNode: 'relayed-from-node-service-ips',
  },
  'node-port': {
    all: 'service-nodeports',
    fromNode: 'from-node-nodeports',
    none: 'no-endpoint-nodeports',
    relayed: 'relayed-service-nodeports',
    relayedFromNode: 'relayed-from-node-nodeports',
  },
} as const

const compileVip = (
  servicePort: ServicePort,
  vip: Vip,
  relay: AddressPort | undefined,
  context: Context,
  into: Filled,
): void => {
  const { kind, address, port } = vip
  // On one address alone, loopback's, it is a VIP like any other.
  const isNodePort = kind === 'NodePort' && isWildcard(address)
  const dialled = isNodePort ? 'node-port' : 'vip'
  const ofProtocol = `${protocolNumber[servicePort.protocol]} . ${port}`
  const key = isNodePort ? ofProtocol : `${address} . ${ofProtocol}`
  if (relay === undefined)
    leadToEndpoints(
      servicePort,
      vip,
      { kind: dialled, address, port, key },
      context,
      into,
    )
  else leadToRelay(servicePort, kind, relay, names[dialled], key, into)
  const isInside = kind === 'ClusterIP'
  const { verdict } = isInside ? servicePort.internal : servicePort.external
  // Looked up after the address is changed: who was led somewhere by then is not kept out.
  if (verdict !== 'forward')
    into.elements.push({
      set: names[dialled].none,
      key,
      value: verdict === 'reject' ? 'goto refuse' : 'drop',
    })
  if (isInside) into.shared.push({ set: 'cluster-ips', key: address, value: '' })
  if (kind === 'LoadBalancerIP') guard(servicePort, key, context, into)
}

const leadToEndpoints = (
  servicePort: ServicePort,
  { kind }: Vip,
  dialled: Dialled & { readonly key: string },
  context: Context,
  into: Filled,
): void => {
  const { internal, external, externalFromNode, externalTrafficPolicy } = servicePort
  const sets = names[dialled.kind]
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
    into.elements.push(...elements, { set, key: dialled.key, value: `goto ${chain}` })
  }
  if (kind === 'ClusterIP') return lead(sets.all, 'cluster-ip', internal)
  const isLocal = externalTrafficPolicy === 'Local'
  lead(sets.all, isLocal ? 'external-local' : 'external', external)
  if (isLocal) lead(sets.fromNode, 'from-node', externalFromNode)
}

/** All clients, or those of the node alone; which endpoint they get is for the relay to say. */
const leadToRelay = (
  { internal, external, externalFromNode }: ServicePort,
  kind: Vip['kind'],
  { address, port }: AddressPort,
  { relayed, relayedFromNode }: (typeof names)[keyof typeof names],
  key: string,
  { elements }: Filled,
): void => {
  const [all, near] =
    kind === 'ClusterIP' ? [internal, internal] : [external, externalFromNode]
  const value = `${address} . ${port}`
  if (all.verdict === 'forward') elements.push({ set: relayed, key, value })
  else if (near.verdict === 'forward') elements.push({ set: relayedFromNode, key, value })
}

/** loadBalancerSourceRanges. */
const guard = (
  { sourceRanges }: ServicePort,
  key: string,
  { keywords }: Context,
  into: Filled,
): void => {
  if (!guards(sourceRanges)) return
  const part = clientsPart(`${keywords.family} saddr`, sourceRanges)
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

/**
 * Whose way it is: of clients of ClusterIPs; of external addresses and node ports, and of those
 * with policy Local; of clients on this node, whom that policy spares.
 */
type Role = 'cluster-ip' | 'external' | 'external-local' | 'from-node'

/** What clients dial. */
interface Dialled {
  readonly kind: 'vip' | 'node-port'
  /** Of no meaning to a node port. */
  readonly address: string
  readonly port: number
}

/** How a packet comes to one of some endpoints. */
export interface Pick {
  /** Where it is led to. */
  readonly chain: string
  readonly parts: readonly Part[]
  readonly elements: readonly Element[]
}

/** A Service's endpoints for a role, by chance, or where its client has been led before. */
const pick = (
  servicePort: ServicePort,
  role: Role,
  endpoints: readonly Endpoint[],
  dialled: Dialled,
  context: Context,
): Pick =>
  context.form === 'shared' && servicePort.affinityMs === 0
    ? sharedPick(servicePort, role, endpoints, dialled, context)
    : ownPick(servicePort, role, endpoints, context)

/** Slots of clients on this node come after all others of a key. */
const firstSlot: Readonly<Record<Role, number>> = {
  'cluster-ip': 0,
  external: 0,
  'external-local': 0,
  'from-node': 0x1_0000,
}

const maps = {
  vip: { prefix: '', map: 'endpoints' },
  'node-port': { prefix: 'node-port-', map: 'nodeport-endpoints' },
} as const

const protocolKeywords = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const

/** The chain depends on nothing but how many there are; the map has who they are. */
const sharedPick = (
  { protocol }: ServicePort,
  role: Role,
  endpoints: readonly Endpoint[],
  { kind, address, port: dialledPort }: Dialled,
  context: Context,
): Pick => {
  const { family: ip } = context.keywords
  const word = protocolKeywords[protocol]
  const map = `${maps[kind].map}-${word}`
  const first = firstSlot[role]
  const offset = first === 0 ? '' : ` offset ${first}`
  const slot = `numgen random mod ${endpoints.length}${offset}`
  const field = kind === 'vip' ? `${ip} daddr . ` : ''
  const chain: ChainPart = {
    kind: 'chain',
    name: `${maps[kind].prefix}${role}-${word}-${endpoints.length}`,
    rules: [
      ...markRules(role, context),
      `dnat ${ip} to ${field}${word} dport . ${slot} map @${map}`,
    ],
    stays: true,
  }
  const key = kind === 'vip' ? `${address} . ${dialledPort}` : `${dialledPort}`
  const elements = endpoints.map(({ address: to, port }, at) => ({
    set: map,
    key: `${key} . ${first + at}`,
    value: `${to} . ${port}`,
  }))
  return { chain: chain.name, parts: [chain], elements }
}

/** A client of the node's own has an address of it: the load balancer's may be one. */
const markRules = (role: Role, { mark, masqueraded }: Context): readonly string[] => {
  switch (role) {
    case 'cluster-ip':
      return masqueraded === undefined ? [] : [`${masqueraded}${mark}`]
    case 'external':
      return [mark]
    case 'from-node':
      return [`fib saddr type local ${mark}`]
    case 'external-local':
    default:
      return []
  }
}

/** Chains of the Service's own, which lead to the same endpoints whatever was dialled. */
const ownPick = (
  servicePort: ServicePort,
  role: Role,
  endpoints: readonly Endpoint[],
  context: Context,
): Pick => {
  const { protocol, affinityMs } = servicePort
  const name = ownName(role, servicePort, '')
  const marks = markRules(role, context)
  const random = `numgen random mod ${endpoints.length}`
  const { family: ip } = context.keywords
  if (affinityMs === 0) {
    const slots = endpoints.map(({ address, port }, at) => `${at} : ${address} . ${port}`)
    const dnat = `meta l4proto ${protocolNumber[protocol]} dnat ${ip} addr . port to ${random} map { ${slots.join(', ')} }`
    return {
      chain: name,
      parts: [{ kind: 'chain', name, rules: [...marks, dnat] }],
      elements: [],
    }
  }
  const exits = endpoints.map(endpoint => exitOf(servicePort, endpoint, context))
  const rules = [
    ...marks,
    ...exits.map(({ set, chain }) => `${ip} saddr @${set.name} goto ${chain.name}`),
    `${random} vmap { ${exits.map(({ chain }, at) => `${at} : goto ${chain.name}`).join(', ')} }`,
  ]
  const chain: ChainPart = { kind: 'chain', name, rules }
  return {
    chain: name,
    parts: [...exits.flatMap(exit => [exit.set, exit.chain]), chain],
    elements: [],
  }
}

/** An endpoint that remembers who was led to it; a client counts again with each connection. */
const exitOf = (servicePort: ServicePort, endpoint: Endpoint, { keywords }: Context) => {
  const { protocol, affinityMs } = servicePort
  const { address, port } = endpoint
  // Whole seconds, of which there is at least one.
  const seconds = Math.max(1, Math.ceil(affinityMs / 1000))
  const to = joinHostPort(address, port)
  const set = {
    kind: 'set',
    // A set can't change its timeout.
    name: ownName('affinity', servicePort, `${to}/${seconds}s`),
    definition: `type ${keywords.addressType}; size ${mostClients}; flags dynamic,timeout; timeout ${seconds}s;`,
  } as const
  const chain = {
    kind: 'chain',
    name: ownName('endpoint', servicePort, `${to}/${seconds}s`),
    rules: [
      // In a set that is full it goes no further in this rule: the client is served all the same.
      `update @${set.name} { ${keywords.family} saddr }`,
      `meta l4proto ${protocolNumber[protocol]} dnat ${keywords.family} to ${to}`,
    ],
  } as const
  return { set, chain }
}

/** Whether a chain has one of the names given here. */
export const isPickChain = (chain: string): boolean =>
  /^(?:cluster-ip|external|from-node|node-port|endpoint)-/.test(chain)

/** The set that goes with a chain of an endpoint; undefined for other chains. */
export const affinitySetOf = (chain: string): string | undefined =>
  chain.startsWith('endpoint-') ? chain.replace('endpoint', 'affinity') : undefined

/** That an endpoint remembers. */
const mostClients = 1_048_576

/** Of the kernel's limit for names (255) and of what still can be read. */
const mostRead = 160

/** As in `external-Q6MXZHGZ…-default/web/tcp/http`; hashed, as what can be read may be cut. */
const ownName = (
  prefix: string,
  { namespace, serviceName, protocol, portName }: ServicePort,
  rest: string,
): string => {
  const text = [namespace, serviceName, protocol.toLowerCase(), portName, rest].join('/')
  const read = text.replaceAll(/[^\w./-]/g, '.').replace(/\/$/, '')
  return `${prefix}-${shortHash(text)}-${read.slice(0, mostRead)}`
}

/**
 * How a chain finds an endpoint. `shared`: in one map of all Services' endpoints, with one chain
 * for each number of them. `own`: in a map of each Service's own, as kube-proxy has it, whose
 * cost grows with the square of their number; for tools and kernels that don't take the other.
 */
export type Form = 'shared' | 'own'

/** What the rules of a family go by besides Services. */
export interface Context {
  readonly family: IpFamily
  readonly form: Form
  readonly keywords: FamilyKeywords
  /** The fields of a VIP's key: address, protocol and port. */
  readonly vip: string
  /** Those of a node port's key. */
  readonly nodePort: string
  /** Marks a packet to be masqueraded. */
  readonly mark: string
  /** The mark alone, as in `0x4000`. */
  readonly bit: string
  /** Matches for packets of this node's pods; none where they are not known. */
  readonly ifLocal: readonly string[]
  /** What comes before `mark` for clients of ClusterIPs: '' for all, undefined for none. */
  readonly masqueraded: string | undefined
  /** A match for packets to those of the node's addresses that answer node ports. */
  readonly toNode: string
  /** The same for node ports of the relay's, which answer on loopback, too. */
  readonly toRelayingNode: string
  /** Of what is steered to the relay; undefined: nothing is. */
  readonly relay: RelayContext | undefined
  /** Canonical; what is no ClusterIP there is dropped. */
  readonly serviceCidrs: readonly string[]
  /** Devices of the flowtable; none where there is none. */
  readonly flowtableDevices: readonly string[]
  /** Whether an endpoint may be on this node, by the name of its node. */
  readonly isHere: (nodeName: string) => boolean
}

interface RelayContext {
  /** Nothing is led to endpoints: what only those need is not there. */
  readonly isAlone: boolean
  /** Matches for packets of the pods that policy Local spares; none where there are none. */
  readonly ifSpared: readonly string[]
}

export const makeContext = (
  family: IpFamily,
  form: Form,
  settings: KernelSettings,
): Context => {
  const keywords = familyKeywords(family)
  const { family: ip } = keywords
  const bit = `0x${(2 ** settings.masqueradeBit).toString(16)}`
  const { relay } = settings
  return {
    family,
    form,
    keywords,
    vip: `${ip} daddr . meta l4proto . th dport`,
    nodePort: 'meta l4proto . th dport',
    mark: `meta mark set meta mark or ${bit}`,
    bit,
    ifLocal: ifLocal(ip, settings.localDetector),
    masqueraded: settings.masqueradeAll ? '' : ifNotLocal(ip, settings.localDetector),
    toNode: toNode(family, settings, [loopback[family]]),
    toRelayingNode: toNode(family, settings, []),
    relay: relay && {
      isAlone: relay.serves === 'alone',
      ifSpared: ifLocal(ip, localPods(relay.nodePods)),
    },
    serviceCidrs: disjoint(settings.serviceCidrs),
    flowtableDevices: settings.flowtableDevices,
    isHere: nodeName => nodeName === '' || nodeName === settings.nodeName,
  }
}

/** Those of the settings that a context goes by, as text to compare. */
export const settingsText = ({
  localhostNodePorts: _ofTheRelay,
  nodeAddresses: _ofOtherModes,
  ...settings
}: KernelSettings): string => JSON.stringify(settings)

type Detector = KernelSettings['localDetector']

const localPods = (cidrs: readonly string[]): Detector =>
  cidrs.length === 0 ? { by: 'none' } : { by: 'source', cidrs }

const ifLocal = (ip: string, detector: Detector): readonly string[] =>
  detector.by === 'none' ? [] : [localMatch(ip, detector, '')]

const ifNotLocal = (ip: string, detector: Detector): string | undefined =>
  detector.by === 'none' ? undefined : `${localMatch(ip, detector, '!= ')} `

const localMatch = (
  ip: string,
  detector: Exclude<Detector, { by: 'none' }>,
  not: '' | '!= ',
): string => {
  if (detector.by === 'source')
    return `${ip} saddr ${not}{ ${disjoint(detector.cidrs).join(', ')} }`
  const name = detector.by === 'bridge' ? detector.name : `${detector.prefix}*`
  return `iifname ${not}"${name}"`
}

/** Node ports on loopback are not for the kernel: endpoints' answers would come from elsewhere. */
const loopback: Readonly<Record<IpFamily, string>> = {
  IPv4: '127.0.0.0/8',
  IPv6: '::1',
}

/** The proxy address is one of the host's, and has no node ports, but ports of the relay's. */
const toNode = (
  family: IpFamily,
  { nodePortCidrs, relay }: KernelSettings,
  not: readonly string[],
): string => {
  const { family: ip } = familyKeywords(family)
  const all = relay === undefined ? not : [...not, proxyAddressOf[family]]
  const [only = '', ...more] = all
  const others = more.length === 0 ? only : `{ ${all.join(', ')} }`
  const matches = [
    'fib daddr type local',
    ...(only === '' ? [] : [`${ip} daddr != ${others}`]),
    ...(nodePortCidrs === undefined
      ? []
      : [`${ip} daddr { ${disjoint(nodePortCidrs).join(', ')} }`]),
  ]
  return matches.join(' ')
}
