import { hash as digest } from 'node:crypto'
import { constants } from 'node:os'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { MapDefinition, Bpf } from '../bpf/bpf.ts'
import type { Protocol } from '../../model/service.ts'
import type { ServicePort, Target, Vip } from '../../model/snapshot.ts'
import { specialRange } from '../../util/special-address.ts'
import type { Element } from '../elements/element-changes.ts'
import { guards } from '../nft/clients.ts'
import { type AddressPort, addressBytes } from '../../util/ip.ts'
import { protocolNumber } from '../nft/tables.ts'
import { forEachYielding } from '../../util/list-diff.ts'

/*
 * What programs at the connect hook look up. Addresses have one format for both families, 16 bytes
 * in network order, IPv4 as ::ffff:a.b.c.d: so IPv6 sockets that dial IPv4 need nothing of their
 * own. Other numbers have the host's byte order.
 */

/** Another one for each change of what programs and tables mean to each other, where shapes stay. */
export const format = 2

/**
 * What a client dials, or what it is led to: `protocol` is 0 where it does not matter. `isNodePort`: 1
 * in a VIP that is a node port, whose `ip` is its family's wildcard. A client may dial that: it means itself.
 */
export const address = {
  ip: 0,
  port: 16,
  protocol: 18,
  isNodePort: 19,
  size: 24,
} as const

/**
 * Of a VIP. `group` stands for a Service's port and the role of its endpoints, `generation` for one
 * list of them: both are hashes of what they stand for, so that no number is ever used for another
 * thing. `refusal`: an errno for clients where there is no endpoint.
 */
export const service = {
  group: 0,
  generation: 8,
  count: 16,
  affinitySeconds: 20,
  refusal: 24,
  size: 32,
} as const

/**
 * Of an address of the node's (`address.ip`), on which node ports answer: 1 where that is for processes
 * of the node's own network namespace only.
 */
export const nodeAddress = { nodeOnly: 0, size: 8 } as const

/** Of clients that are not led: a process as the first PID namespace has it, or, where that is 0, all of a cgroup and below. */
export const exemptKey = { cgroup: 0, process: 8, size: 16 } as const

/** Of a group: how many were led, and how many refused for want of an endpoint. */
export const counts = { led: 0, refused: 8, size: 16 } as const

/** Of the endpoint at a place in a list. */
export const slotKey = { generation: 0, slot: 8, size: 16 } as const

/** That an address is an endpoint of a group. */
export const memberKey = { group: 0, address: 8, size: 8 + address.size } as const

/** Of what a client had last: when (ns since boot), and where it was led to. */
export const affinityKey = { network: 0, group: 8, size: 16 } as const
export const affinity = { lastUse: 0, address: 8, size: 8 + address.size } as const

/** Of a socket and an address. */
export const socketKey = { cookie: 0, address: 8, size: 8 + address.size } as const

export interface TableSizes {
  readonly services: number
  readonly slots: number
  readonly members: number
  /** Of sockets that are remembered. */
  readonly sockets: number
}

/** Those that are written from outside, in the order of what leads to what. */
export const writtenTables = [
  'exempt',
  'members',
  'slots',
  'addresses',
  'services',
] as const
export type WrittenTable = (typeof writtenTables)[number]

/** Programs fill the others. */
export type TableName =
  WrittenTable | 'counts' | 'affinity' | 'flows' | 'reverse' | 'peers' | 'failed'

const tableOf =
  (type: MapDefinition['type']) =>
  (name: string, keySize: number, valueSize: number, entries: number): MapDefinition => ({
    name: `us_${name}`,
    type,
    keySize,
    valueSize,
    entries,
  })

const hashed = tableOf('hash')
/** The kernel forgets what was used longest ago when it is full. */
const lru = tableOf('lruHash')

/** By the names that programs have for them. */
export const tableDefinitions = (
  sizes: TableSizes,
): Readonly<Record<TableName, MapDefinition>> => ({
  services: hashed('services', address.size, service.size, sizes.services),
  slots: hashed('slots', slotKey.size, address.size, sizes.slots),
  addresses: hashed('addresses', address.port, nodeAddress.size, 4096),
  exempt: hashed('exempt', exemptKey.size, 8, 1024),
  // What is remembered of clients holds as long as the endpoint is one.
  members: hashed('members', memberKey.size, 8, sizes.members),
  counts: lru('counts', 8, counts.size, sizes.sockets),
  affinity: lru('affinity', affinityKey.size, affinity.size, sizes.sockets),
  // Of sockets that send UDP without a connect: where to.
  flows: lru('flows', socketKey.size, address.size, sizes.sockets),
  // Of UDP: what a socket was led to, and the VIP that it dialled.
  reverse: lru('reverse', socketKey.size, address.size, sizes.sockets),
  // The same of TCP. Apart, as there are many more, which would push out those of UDP: then answers
  // would come from a stranger. Of TCP only getpeername(2) is lost.
  peers: lru('peers', socketKey.size, address.size, 4096),
  // Endpoints whose connect has failed, and when (ns since boot).
  failed: lru('failed', address.size, 8, 4096),
})

/** An element of one of the tables. */
export interface Entry extends Element {
  readonly set: WrittenTable
}

/** What clients of a ServicePort are led by. */
export type LedServicePort = Pick<
  ServicePort,
  | 'key'
  | 'family'
  | 'protocol'
  | 'vips'
  | 'affinityMs'
  | 'relayed'
  | 'sourceRanges'
  | 'internal'
  | 'externalFromNode'
>

/**
 * All that the tables have of one ServicePort; keys and values are bytes as latin1. Pure: the same
 * for the same. What the relay is asked for, source ranges (the source is not chosen yet at a
 * connect), VIPs that mean something else to each client (loopback, link-local) and SCTP are left to the proxy mode.
 */
export const compile = (servicePort: LedServicePort): readonly Entry[] => {
  const { protocol, relayed, vips } = servicePort
  if (protocol === 'SCTP' || relayed) return []
  const elements: Entry[] = []
  const leads = new Map<Target, string>()
  for (const vip of vips) {
    if (isGuarded(vip, servicePort) || specialRange(vip.address) !== '') continue
    const isInside = vip.kind === 'ClusterIP'
    const target = isInside ? servicePort.internal : servicePort.externalFromNode
    let lead = leads.get(target)
    if (lead === undefined)
      leads.set(target, (lead = leadOf(servicePort, isInside, target, elements)))
    elements.push(element('services', vipKey(vip, protocol), lead))
  }
  return elements
}

/** That node ports answer on an address of the node's. Processes of pods have a loopback, and links, of their own. */
export const compileNodeAddress = (ip: string): Entry => {
  const key = addressOf(ip, 0).slice(0, address.port)
  return element('addresses', key, `${number(specialRange(ip) === '' ? 0 : 1)}${padding}`)
}

/** The entry by which clients of a VIP are led; undefined: they are not. */
export const entryOf = (servicePort: LedServicePort, vip: Vip): Entry | undefined => {
  const wanted = vipKey(vip, servicePort.protocol)
  return compile(servicePort).find(({ set, key }) => set === 'services' && key === wanted)
}

const vipKey = ({ kind, address: ip, port }: Vip, protocol: Protocol): string => {
  const key = addressOf(ip, port, protocol)
  if (kind !== 'NodePort') return key
  return `${key.slice(0, address.isNodePort)}\x01${key.slice(address.isNodePort + 1)}`
}

/** Also by an external IP that is the same address. */
export const isGuarded = (
  vip: Vip,
  { sourceRanges, vips }: Pick<LedServicePort, 'sourceRanges' | 'vips'>,
): boolean =>
  guards(sourceRanges) &&
  vips.some(each => each.kind === 'LoadBalancerIP' && each.address === vip.address)

const element = (set: WrittenTable, key: string, value: string): Entry => ({
  set,
  key,
  value,
})

/** Enters the endpoints of a target, and gives what VIPs are entered with. */
const leadOf = (
  servicePort: LedServicePort,
  isInside: boolean,
  { verdict, endpoints }: Target,
  into: Entry[],
): string => {
  const { key, family, protocol, affinityMs } = servicePort
  const group = groupOf({ key, family }, isInside ? 'internal' : 'external')
  const addresses = endpoints.map(({ address: ip, port }) => addressOf(ip, port))
  const generation = hash(`${group}${addresses.join('')}`)
  if (verdict === 'forward') {
    for (const [slot, bytes] of addresses.entries())
      into.push(element('slots', `${generation}${number(slot)}${padding}`, bytes))
    if (affinityMs > 0 || protocol === 'UDP')
      for (const bytes of new Set(addresses))
        into.push(element('members', `${group}${bytes}`, '\0'.repeat(8)))
  }
  const count = verdict === 'forward' ? endpoints.length : 0
  // Whole seconds, of which there is at least one.
  const affinitySeconds = Math.ceil(affinityMs / 1000)
  const numbers = [count, affinitySeconds, refusals[verdict]].map(number)
  return `${group}${generation}${numbers.join('')}${padding}`
}

/** 32 bits, in the host's byte order: bpf(2) through koffi is for x86-64 and arm64. */
const number = (value: number): string =>
  String.fromCharCode(
    value & 0xff,
    (value >> 8) & 0xff,
    (value >> 16) & 0xff,
    value >>> 24,
  )

/** After a number, to 64 bits. */
const padding = '\0'.repeat(4)

/** What counts and what is remembered of clients goes by. */
const groupOf = (
  { key, family }: Pick<ServicePort, 'key' | 'family'>,
  role: 'internal' | 'external',
): string => hash(`${key} ${family} ${role}`)

/** What a client is told where nobody serves; the other modes drop what has no endpoint here. */
const refusals: Readonly<Record<Target['verdict'], number>> = {
  forward: 0,
  reject: constants.errno.ECONNREFUSED,
  drop: constants.errno.EHOSTUNREACH,
}

/** In one call: with an object for each, hashes were a quarter of a first sync. */
const hash = (text: string): string =>
  digest('sha256', Buffer.from(text, 'latin1'), 'binary').slice(0, 8)

/** As tables have it, its bytes as latin1. */
export const addressOf = (ip: string, port: number, protocol?: Protocol): string => {
  const bytes = addressBytes(ip)
  const wire = protocol === undefined ? 0 : protocolNumber[protocol]
  const rest = String.fromCharCode(...bytes, port >> 8, port & 0xff, wire)
  return `${bytes.length === 4 ? mapped : ''}${rest}${afterProtocol}`
}

/** Before an IPv4 address. */
const mapped = `${'\0'.repeat(10)}\xff\xff`
const afterProtocol = '\0'.repeat(address.size - address.protocol - 1)

/** The other way round; IPv6 is not compressed. */
export const readAddressOf = (text: string): AddressPort => {
  const bytes = Buffer.from(text, 'latin1')
  const port = bytes.readUInt16BE(address.port)
  const isMapped = bytes.readBigUInt64BE(0) === 0n && bytes.readUInt32BE(8) === 0xffff
  if (isMapped) return { address: bytes.subarray(12, 16).join('.'), port }
  const groups = bytes.toString('hex', 0, 16).match(/.{4}/g) ?? []
  return { address: groups.join(':'), port }
}

/** Of a ServicePort, in both families. */
export interface LedCount {
  /** Its name and protocol. */
  readonly labels: readonly [name: string, protocol: string]
  readonly led: number
  readonly refused: number
}

/** Whose an element of the table `counts` is. */
export class LedCounts {
  /** A ServicePort that changes is another object; to hash 20,000 takes 0.1 s. */
  readonly #groups = new WeakMap<ServicePort, readonly string[]>()

  /** Only those that clients have dialled. */
  async count(
    servicePorts: readonly ServicePort[],
    elements: Iterable<readonly [group: string, value: string]>,
  ): Promise<readonly LedCount[]> {
    const values = new Map(elements)
    const found = new Map<string, LedCount>()
    await forEachYielding(servicePorts, one => {
      for (const group of this.#groupsOf(one)) {
        const value = values.get(group)
        if (value !== undefined) add(found, one, Buffer.from(value, 'latin1'))
      }
    })
    return [...found.values()]
  }

  #groupsOf(servicePort: ServicePort): readonly string[] {
    let groups = this.#groups.get(servicePort)
    if (groups === undefined) {
      groups = (['internal', 'external'] as const).map(role => groupOf(servicePort, role))
      this.#groups.set(servicePort, groups)
    }
    return groups
  }
}

const add = (
  found: Map<string, LedCount>,
  { name, protocol }: ServicePort,
  value: Buffer,
): void => {
  const key = `${protocol} ${name}`
  const before = found.get(key)
  found.set(key, {
    labels: [name, protocol],
    led: (before?.led ?? 0) + Number(value.readBigUInt64LE(counts.led)),
    refused: (before?.refused ?? 0) + Number(value.readBigUInt64LE(counts.refused)),
  })
}

const present = '\0'.repeat(8)

export const compileExempt = (key: string): Entry => ({
  set: 'exempt',
  key,
  value: present,
})

/**
 * The groups below `cgroup` that a pattern names, in which `*` stands for any text within a name, as keys of the
 * table `exempt`. What is not there, or goes meanwhile, is none.
 */
export const exemptGroups = (cgroup: string, pattern: string): readonly string[] => {
  let found = [cgroup]
  for (const part of pattern.split('/').filter(Boolean)) {
    const name = new RegExp(
      `^${part.replaceAll(/[^\w*]/g, '\\$&').replaceAll('*', '.*')}$`,
    )
    found = found.flatMap(folder =>
      namesIn(folder)
        .filter(each => name.test(each))
        .map(each => join(folder, each)),
    )
  }
  return found.flatMap(folder => {
    const { ino } = statSync(folder, { bigint: true, throwIfNoEntry: false }) ?? {}
    return ino === undefined ? [] : [keyOf(ino)]
  })
}

const namesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENOTDIR', 'ENODEV'].includes(code)) return []
    throw error
  }
}

const keyOf = (group: bigint): string => {
  const key = Buffer.alloc(exemptKey.size)
  key.writeBigUInt64LE(group, exemptKey.cgroup)
  return key.toString('latin1')
}

/** By programs that lead already: those in `folder` that an earlier process has left, or another one has. */
export const exemptAtOnce = (bpf: Bpf, folder: string, key: string): void => {
  const [keys, values] = [bpf.allocate(exemptKey.size), bpf.allocate(present.length)]
  keys.bytes.write(key, 'latin1')
  for (const layout of existsSync(folder) ? readdirSync(folder) : []) {
    const table = bpf.pinned(join(folder, layout, 'table-exempt'))
    if (table === undefined) continue
    bpf.updateBatch(table, keys, values, 1)
    bpf.close(table)
  }
}
