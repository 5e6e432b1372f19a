import { shortHash } from '../../util/short-hash.ts'
import type { Endpoint, ServicePort } from '../../model/snapshot.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { Element } from '../elements/element-changes.ts'
import type { ChainPart, Part } from '../nft/parts.ts'
import { protocolNumber } from '../nft/tables.ts'
import type { Context } from './context.ts'

/**
 * Whose way it is: of clients of ClusterIPs; of external addresses and node ports, and of those
 * with policy Local; of clients on this node, whom that policy spares.
 */
export type Role = 'cluster-ip' | 'external' | 'external-local' | 'from-node'

/** What clients dial. */
export interface Dialled {
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
export const pick = (
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

const protocolWords = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const

/** The chain depends on nothing but how many there are; the map has who they are. */
const sharedPick = (
  { protocol }: ServicePort,
  role: Role,
  endpoints: readonly Endpoint[],
  { kind, address, port: dialledPort }: Dialled,
  context: Context,
): Pick => {
  const { family: ip } = context.words
  const word = protocolWords[protocol]
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
  const { family: ip } = context.words
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
const exitOf = (servicePort: ServicePort, endpoint: Endpoint, { words }: Context) => {
  const { protocol, affinityMs } = servicePort
  const { address, port } = endpoint
  // Whole seconds, of which there is at least one.
  const seconds = Math.max(1, Math.ceil(affinityMs / 1000))
  const to = joinHostPort(address, port)
  const set = {
    kind: 'set',
    // A set can't change its timeout.
    name: ownName('affinity', servicePort, `${to}/${seconds}s`),
    definition: `type ${words.addressType}; size ${mostClients}; flags dynamic,timeout; timeout ${seconds}s;`,
  } as const
  const chain = {
    kind: 'chain',
    name: ownName('endpoint', servicePort, `${to}/${seconds}s`),
    rules: [
      // In a set that is full it goes no further in this rule: the client is served all the same.
      `update @${set.name} { ${words.family} saddr }`,
      `meta l4proto ${protocolNumber[protocol]} dnat ${words.family} to ${to}`,
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
