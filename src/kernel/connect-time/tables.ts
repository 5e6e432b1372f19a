import type { MapDefinition } from '../bpf/bpf.ts'

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

const table =
  (type: MapDefinition['type']) =>
  (name: string, keySize: number, valueSize: number, entries: number): MapDefinition => ({
    name: `us_${name}`,
    type,
    keySize,
    valueSize,
    entries,
  })

const hash = table('hash')
/** The kernel forgets what was used longest ago when it is full. */
const lru = table('lruHash')

/** By the names that programs have for them. */
export const tableDefinitions = (
  sizes: TableSizes,
): Readonly<Record<TableName, MapDefinition>> => ({
  services: hash('services', address.size, service.size, sizes.services),
  slots: hash('slots', slotKey.size, address.size, sizes.slots),
  addresses: hash('addresses', address.port, nodeAddress.size, 4096),
  exempt: hash('exempt', exemptKey.size, 8, 1024),
  // What is remembered of clients holds as long as the endpoint is one.
  members: hash('members', memberKey.size, 8, sizes.members),
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
