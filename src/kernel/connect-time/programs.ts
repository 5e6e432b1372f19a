import type { ProgramDefinition } from '../bpf/bpf.ts'
import { Assembler, stack } from '../bpf/assembler.ts'
import type { Program, Size } from '../bpf/instruction.ts'
import { dataPlaneUser } from '../data-plane-user.ts'
import {
  address,
  affinity,
  affinityKey,
  counts,
  exemptKey,
  memberKey,
  nodeAddress,
  service,
  slotKey,
  socketKey,
} from './tables.ts'

/** Of enum bpf_prog_type. */
const cgroupSockAddr = 18
const sockOps = 13

/** Of enum bpf_attach_type. */
const attachTypes = {
  sockOps: 3,
  connect4: 10,
  connect6: 11,
  sendmsg4: 14,
  sendmsg6: 15,
  recvmsg4: 19,
  recvmsg6: 20,
  getpeername4: 29,
  getpeername6: 30,
} as const

/** All programs, in the order in which they are to be attached: whoever leads comes last. */
export const programsFor = (features: Features): readonly ProgramDefinition[] => {
  const of = (
    name: Exclude<keyof typeof attachTypes, 'sockOps'>,
    program: ProgramDefinition['program'],
  ): ProgramDefinition => ({
    name: `us_${name}`,
    type: cgroupSockAddr,
    attachType: attachTypes[name],
    program,
  })
  const remembering = {
    name: 'us_failures',
    type: sockOps,
    attachType: attachTypes.sockOps,
    program: failures(),
  }
  return [
    ...(features.avoidsFailed ? [remembering] : []),
    of('getpeername4', backward(4, 'peer')),
    of('getpeername6', backward(6, 'peer')),
    of('recvmsg4', backward(4, 'receive')),
    of('recvmsg6', backward(6, 'receive')),
    of('sendmsg4', forward(4, 'send', features)),
    of('sendmsg6', forward(6, 'send', features)),
    of('connect4', forward(4, 'connect', features)),
    of('connect6', forward(6, 'connect', features)),
  ]
}

/** What the kernel has, and what was asked for. */
export interface Features {
  /** A program may say which error a client gets (Linux 5.18); else it is EPERM. */
  readonly errors: boolean
  /** Endpoints whose connect failed a moment ago are passed over. */
  readonly avoidsFailed: boolean
  /** The cookie of the node's network namespace; undefined: that of the first one (init). */
  readonly node: bigint | undefined
  /** Pods are left to the proxy mode. */
  readonly onlyNode: boolean
  /** Cgroups are left to it, too. */
  readonly exemptsGroups?: boolean
  /** Of a probe: who is led is noted as one that is exempt. */
  readonly learns?: boolean
}

/** `connect`: also of UDP; `send`: a datagram of a socket that has no peer. */
type Hook = 'connect' | 'send'

/** Registers that keep what they have over calls. */
const context = 6
const found = 7
const endpoint = 8
const known = 9

/** On the stack; each is a key or a value of a table. */
const at = {
  dialled: -24,
  affinityKey: -40,
  slotKey: -56,
  socketKey: -88,
  memberKey: -120,
  affinity: -152,
  failedKey: -176,
  endpoint: -200,
  tries: -208,
  /** By which the Service was found. */
  key: -232,
  group: -240,
  counts: -256,
  service: -288,
  rounds: -296,
  own: -312,
  exempt: -328,
} as const

/** How long an endpoint that failed comes last. A client may fail by itself: so it is short. */
const failedNs = 1_000_000_000
/** So many others are looked at in its place; and so often again where the tables change meanwhile. */
const mostTries = 3
const nsPerSecond = 1_000_000_000
const EAGAIN = 11
/** BPF_NOEXIST */
const onlyNew = 1
const LOOPBACK_IFINDEX = 1
/** What is below it is as its group there is. */
const mostLevels = 16
const TCP_ESTABLISHED = 1

/**
 * Leads a client of a VIP to one of its endpoints, before the kernel looks for a route. What is
 * no VIP goes on unchanged.
 */
const forward = (family: Family, hook: Hook, features: Features): Program => {
  const write = new Assembler()
  write.move(context, 1)
  clearStack(write)
  readAddress(write, family, at.dialled)
  if (features.onlyNode) onlyOnNode(write, features.node)
  findService(write, family, features)
  leaveStrangers(write, family, hook)
  leaveExempt(write, features)
  write.load('u32', 1, found, service.count).ifEqual(1, 0, 'refuse')
  if (hook === 'send') sameFlow(write)
  sameClient(write)
  pick(write, features.avoidsFailed && hook === 'connect')
  if (hook === 'send') put(write, 'flows', at.socketKey, at.endpoint)
  write.label('lead')
  rememberDialled(write, hook)
  write.stackAddress(endpoint, at.endpoint)
  writeAddress(write, family, endpoint)
  write.jump('allow')
  leave(write, hook)
  write.label('allow').set(0, 1).exit()
  refusals(write, features.errors)
  return write.program()
}

/**
 * Without CAP_PERFMON the verifier wants every byte that the kernel may read to be written on all
 * ways, those among them that are never gone. All else is written where it is used.
 */
const clearStack = (write: Assembler): void => {
  for (const byte of [
    at.tries,
    at.rounds,
    at.affinityKey + affinityKey.network,
    at.affinityKey + affinityKey.group,
    at.affinity + affinity.lastUse,
  ])
    write.storeValue('u64', stack, byte, 0)
}

/** Others go on unchanged. */
const onlyOnNode = (write: Assembler, node: Features['node']): void => {
  write.move(1, context).call(helpers.networkCookie)
  if (node === undefined)
    // Without a context it is the first namespace's.
    write.move(known, 0).set(1, 0).call(helpers.networkCookie).ifDiffer(0, known, 'leave')
  else write.setWide(1, node).ifDiffer(0, 1, 'leave')
}

/**
 * Those whose own end does not get to an endpoint: bound to `lo`, or to an address of loopback or of a link
 * (`specialRange`). Words as a machine has them whose lower bytes come first.
 */
const leaveStrangers = (write: Assembler, family: Family, hook: Hook): void => {
  write
    .load('u64', known, context, dialled.socket)
    .load('u32', 1, known, socket.device)
    .ifEqual(1, LOOPBACK_IFINDEX, 'leave')
  // A datagram may have another end than its socket (IP_PKTINFO).
  if (hook === 'send') readIp(write, family, context, own, at.own)
  else readIp(write, family, known, socket, at.own)
  const leaveWhere = (size: Size, byte: number, value: number): Assembler =>
    write.load(size, 1, stack, at.own + byte).ifEqual(1, value, 'leave')
  leaveWhere('u16', 0, 0x80fe)
  write.load('u64', 1, stack, at.own).ifNotEqual(1, 0, 'fits')
  leaveWhere('u8', 12, 127)
  leaveWhere('u16', 12, 0xfea9)
  leaveWhere('u32', 12, 0x01000000).label('fits')
}

/** Usher's own processes, whatever VIPs there are; and cgroups with VIPs of their own. */
const leaveExempt = (write: Assembler, { learns, exemptsGroups }: Features): void => {
  write
    .call(helpers.processId)
    .shiftRight(0, 32)
    .store('u64', stack, at.exempt + exemptKey.process, 0)
    .call(helpers.cgroupId)
    .store('u64', stack, at.exempt + exemptKey.cgroup, 0)
  if (learns === true) put(write, 'exempt', at.exempt, at.exempt)
  else lookUp(write, 'exempt', at.exempt).ifNotEqual(0, 0, 'leave')
  write
    .call(helpers.userId)
    .store('u64', stack, at.exempt + exemptKey.process, 0)
    .load('u32', 1, stack, at.exempt + exemptKey.process)
    .ifEqual(1, dataPlaneUser, 'leave')
  if (exemptsGroups !== true) return
  write.storeValue('u64', stack, at.exempt + exemptKey.process, 0)
  for (let level = 0; level < mostLevels; level += 1) {
    write
      .set(1, level)
      .call(helpers.ancestorId)
      .ifEqual(0, 0, 'not exempt')
      .store('u64', stack, at.exempt + exemptKey.cgroup, 0)
    lookUp(write, 'exempt', at.exempt).ifNotEqual(0, 0, 'leave')
  }
  write.label('not exempt')
}

/** By what was dialled, or by a node port where that is an address of the node's. */
const findService = (write: Assembler, family: Family, features: Features): void => {
  const { onlyNode, node } = features
  write.label('find')
  copy(write, stack, at.dialled, at.key, address.size)
  lookUp(write, 'services', at.key).ifNotEqual(0, 0, 'found')
  // The address is the first part of what was dialled.
  lookUp(write, 'addresses', at.key).ifEqual(0, 0, 'leave')
  if (!onlyNode) {
    write.load('u32', 1, 0, nodeAddress.nodeOnly).ifEqual(1, 0, 'for all')
    onlyOnNode(write, node)
    write.label('for all')
  }
  toNodePort(write, family, at.key)
  lookUp(write, 'services', at.key).ifEqual(0, 0, 'leave').label('found')
  copy(write, 0, 0, at.service, service.size)
  write.stackAddress(found, at.service)
}

/**
 * The kernel (6.1 and later) gives the memory of an element that was replaced to the next one at once,
 * which may be another Service's; and it's the same with slots, which go after what led to them. So
 * what was read holds where it is still what there is.
 */
const ifReplaced = (write: Assembler): void => {
  lookUp(write, 'services', at.key).ifEqual(0, 0, 'replaced')
  ifOther(write, 0, at.service, service.size, 'replaced')
}

/** A flow stays where it was led to, as long as that is an endpoint. */
const sameFlow = (write: Assembler): void => {
  socketAt(write, at.dialled)
  lookUp(write, 'flows', at.socketKey).ifEqual(0, 0, 'fresh flow')
  copy(write, 0, 0, at.endpoint, address.size)
  ifMember(write, 'fresh flow')
  write.jump('lead').label('fresh flow')
}

/** Goes on where `endpoint` of the stack is one of the group's, and to `otherwise` where not. */
const ifMember = (write: Assembler, otherwise: string): void => {
  copy(write, found, service.group, at.memberKey + memberKey.group, 8)
  copy(write, stack, at.endpoint, at.memberKey + memberKey.address, address.size)
  lookUp(write, 'members', at.memberKey).ifEqual(0, 0, otherwise)
}

/** ClientIP affinity: a client is a network namespace, as a pod has one, and one address. */
const sameClient = (write: Assembler): void => {
  write.load('u32', 1, found, service.affinitySeconds).ifEqual(1, 0, 'pick')
  write
    .move(1, context)
    .call(helpers.networkCookie)
    .store('u64', stack, at.affinityKey + affinityKey.network, 0)
  copy(write, found, service.group, at.affinityKey + affinityKey.group, 8)
  write.call(helpers.nanoseconds).store('u64', stack, at.affinity + affinity.lastUse, 0)
  lookUp(write, 'affinity', at.affinityKey).ifEqual(0, 0, 'pick').move(known, 0)
  write
    .load('u32', 1, found, service.affinitySeconds)
    .multiplyValue(1, nsPerSecond)
    .load('u64', 2, known, affinity.lastUse)
    .add(1, 2)
    .load('u64', 2, stack, at.affinity + affinity.lastUse)
    .ifAboveOther(2, 1, 'pick')
  copy(write, known, affinity.address, at.endpoint, address.size)
  ifMember(write, 'pick')
  write.jump('have')
}

/** One of the list in force, by chance. */
const pick = (write: Assembler, avoidsFailed: boolean): void => {
  write
    .label('pick')
    .call(helpers.random)
    .load('u32', 1, found, service.count)
    .modulo32(0, 1)
    // With the empty bytes behind it.
    .store('u64', stack, at.slotKey + slotKey.slot, 0)
    .label('look')
  copy(write, found, service.generation, at.slotKey + slotKey.generation, 8)
  lookUp(write, 'slots', at.slotKey).ifEqual(0, 0, 'replaced')
  copy(write, 0, 0, at.endpoint, address.size)
  if (avoidsFailed) passOverFailed(write)
  ifReplaced(write)
  write
    .load('u32', 1, found, service.affinitySeconds)
    .ifEqual(1, 0, 'picked')
    .label('have')
  copy(write, stack, at.endpoint, at.affinity + affinity.address, address.size)
  put(write, 'affinity', at.affinityKey, at.affinity)
  write.label('picked')
  count(write, 'led')
}

const count = (write: Assembler, what: 'led' | 'refused'): void => {
  copy(write, found, service.group, at.group, 8)
  lookUp(write, 'counts', at.group)
    .ifEqual(0, 0, `first ${what}`)
    .set(1, 1)
    .addInMemory(0, counts[what], 1)
    .jump(`${what} is counted`)
    .label(`first ${what}`)
    .storeValue('u64', stack, at.counts + counts.led, 0)
    .storeValue('u64', stack, at.counts + counts.refused, 0)
    .storeValue('u64', stack, at.counts + counts[what], 1)
  // Where another processor was first, this one is not counted.
  put(write, 'counts', at.group, at.counts, onlyNew)
  write.label(`${what} is counted`)
}

/** The next of the list in its place; after some of them, whatever comes. */
const passOverFailed = (write: Assembler): void => {
  copy(write, stack, at.endpoint, at.failedKey, address.size)
  lookUp(write, 'failed', at.failedKey).ifEqual(0, 0, 'works').move(known, 0)
  write
    .call(helpers.nanoseconds)
    .load('u64', 1, known, 0)
    .subtract(0, 1)
    .ifAbove(0, failedNs, 'works')
  countTry(write, at.tries, 'works')
  write
    .load('u32', 1, stack, at.slotKey + slotKey.slot)
    .addValue(1, 1)
    .load('u32', 2, found, service.count)
    .modulo32(1, 2)
    .store('u32', stack, at.slotKey + slotKey.slot, 1)
    .jump('look')
    .label('works')
}

const countTry = (write: Assembler, tries: number, atMost: string): void => {
  write
    .load('u64', 1, stack, tries)
    .addValue(1, 1)
    .store('u64', stack, tries, 1)
    .ifAbove(1, mostTries, atMost)
}

/** Who asks for the peer's address, or where an answer came from, is told the VIP. */
const rememberDialled = (write: Assembler, hook: Hook): void => {
  if (hook === 'send') ifHasPeer(write, 'told')
  socketAt(write, at.endpoint)
  write
    .load('u8', 1, stack, at.dialled + address.protocol)
    .store('u8', stack, at.socketKey + socketKey.address + address.protocol, 1)
  if (hook === 'connect') {
    write.ifNotEqual(1, IPPROTO_TCP, 'UDP')
    put(write, 'peers', at.socketKey, at.dialled).jump('told').label('UDP')
  } else {
    // Most datagrams go where the last one went; but another VIP may lead there, too.
    lookUp(write, 'reverse', at.socketKey).ifEqual(0, 0, 'tell')
    ifOther(write, 0, at.dialled, address.size, 'tell')
    write.jump('told').label('tell')
  }
  put(write, 'reverse', at.socketKey, at.dialled)
  write.label('told')
}

/**
 * What is not led has its true peer from now on: it may be where the socket was led to before, and is then neither shown
 * as a VIP nor ended with the Service's endpoint.
 */
const leave = (write: Assembler, hook: Hook): void => {
  write.label('leave')
  if (hook === 'send') ifHasPeer(write, 'allow')
  socketAt(write, at.dialled)
  for (const table of hook === 'connect' ? ['peers', 'reverse'] : ['reverse']) {
    // Takes no lock, and most have nothing there.
    lookUp(write, table, at.socketKey).ifEqual(0, 0, `not in ${table}`)
    write.map(1, table).stackAddress(2, at.socketKey).call(helpers.delete)
    write.label(`not in ${table}`)
  }
}

/** Such a socket keeps it, and hears nobody else, whatever it sends elsewhere. */
const ifHasPeer = (write: Assembler, label: string): void => {
  write.load('u64', 1, context, dialled.socket).load('u32', 1, 1, socket.state)
  write.ifEqual(1, TCP_ESTABLISHED, label)
}

/** The key of this socket and an address. */
const socketAt = (write: Assembler, from: number): void => {
  write
    .move(1, context)
    .call(helpers.socketCookie)
    .store('u64', stack, at.socketKey + socketKey.cookie, 0)
  copy(write, stack, from, at.socketKey + socketKey.address, address.size)
}

const refusals = (write: Assembler, errors: boolean): void => {
  const refuse = (label: string, error: () => void): void => {
    write.label(label)
    if (label === 'refuse') {
      ifReplaced(write)
      count(write, 'refused')
    }
    if (errors) {
      error()
      write.multiplyValue(1, -1).call(helpers.setReturn)
    }
    write.set(0, 0).exit()
  }
  refuse('refuse', () => write.load('u32', 1, found, service.refusal))
  // Between two look-ups another list came into force.
  write.label('replaced')
  countTry(write, at.rounds, 'replaced too often')
  write.jump('find')
  refuse('replaced too often', () => write.set(1, EAGAIN))
}

/** Of struct bpf_sock_addr: what a socket dials, or what a datagram comes from; `own`: a datagram's own end. */
const dialled = { ip4: 4, ip6: 8, port: 24, protocol: 36, socket: 64 } as const
const own = { ip4: 40, ip6: 44 } as const
/** Of struct bpf_sock, with its own end. */
const socket = { device: 0, ip4: 24, ip6: 28, state: 72 } as const

/** Functions of the kernel's (enum bpf_func_id, bpf-helpers(7)). */
const helpers = {
  lookup: 1,
  update: 2,
  delete: 3,
  nanoseconds: 5,
  random: 7,
  processId: 14,
  userId: 15,
  socketCookie: 46,
  setCallbacks: 59,
  cgroupId: 80,
  networkCookie: 122,
  ancestorId: 123,
  setReturn: 187,
} as const

type Family = 4 | 6

const IPPROTO_TCP = 6

const words = [0, 4, 8, 12] as const
/** The third word of an IPv4 address: ::ffff:0:0, in network order. */
const mappedMark = 0xffff0000

/** Copies an address, that is where `from` points to, to the stack. Changes r1. */
const readIp = (
  write: Assembler,
  family: Family,
  from: number,
  { ip4, ip6 }: { readonly ip4: number; readonly ip6: number },
  place: number,
): void => {
  if (family === 6)
    for (const word of words)
      write.load('u32', 1, from, ip6 + word).store('u32', stack, place + word, 1)
  else
    write
      .storeValue('u64', stack, place, 0)
      .storeValue('u32', stack, place + 8, mappedMark)
      .load('u32', 1, from, ip4)
      .store('u32', stack, place + 12, 1)
}

/** Copies the address that `context` has, with its port and protocol, to the stack. Changes r1. */
const readAddress = (write: Assembler, family: Family, place: number): void => {
  readIp(write, family, context, dialled, place)
  write
    .storeValue('u64', stack, place + address.port, 0)
    .load('u32', 1, context, dialled.port)
    .store('u16', stack, place + address.port, 1)
    .load('u32', 1, context, dialled.protocol)
    .store('u8', stack, place + address.protocol, 1)
}

/** Makes an address on the stack what node ports of its family go by. Changes r1. */
const toNodePort = (write: Assembler, family: Family, place: number): void => {
  if (family === 6) {
    write
      .load('u64', 1, stack, place)
      .ifNotEqual(1, 0, 'IPv6')
      .load('u16', 1, stack, place + 8)
      .ifNotEqual(1, 0, 'IPv6')
      .load('u16', 1, stack, place + 10)
      .ifEqual(1, 0xffff, 'IPv4')
      .label('IPv6')
      .storeValue('u64', stack, place, 0)
      .storeValue('u32', stack, place + 8, 0)
      .label('IPv4')
  }
  write
    .storeValue('u32', stack, place + 12, 0)
    .storeValue('u8', stack, place + address.isNodePort, 1)
}

/** Puts an address of the tables, to which `from` points, into the context. Changes r1. */
const writeAddress = (write: Assembler, family: Family, from: number): void => {
  if (family === 6)
    for (const word of words)
      write.load('u32', 1, from, word).store('u32', context, dialled.ip6 + word, 1)
  else write.load('u32', 1, from, 12).store('u32', context, dialled.ip4, 1)
  write.load('u16', 1, from, address.port).store('u32', context, dialled.port, 1)
}

/** The element whose key is at `key` of the stack comes into r0: where it is, or 0. Changes r1 to r5. */
const lookUp = (write: Assembler, table: string, key: number): Assembler =>
  write.map(1, table).stackAddress(2, key).call(helpers.lookup)

/** Key and value from the stack; flags as of `bpf_map_update_elem`. Changes r0 to r5. */
const put = (
  write: Assembler,
  table: string,
  key: number,
  value: number,
  flags = 0,
): Assembler =>
  write
    .map(1, table)
    .stackAddress(2, key)
    .stackAddress(3, value)
    .set(4, flags)
    .call(helpers.update)

/** Some 64-bit words from where `from` points to the stack. Changes r1. */
const copy = (
  write: Assembler,
  from: number,
  offset: number,
  place: number,
  bytes: number,
): void => {
  for (let byte = 0; byte < bytes; byte += 8)
    write.load('u64', 1, from, offset + byte).store('u64', stack, place + byte, 1)
}

/** Goes on where the stack has the same 64-bit words as where `from` points to. Changes r1, r2. */
const ifOther = (
  write: Assembler,
  from: number,
  place: number,
  bytes: number,
  otherwise: string,
): void => {
  for (let byte = 0; byte < bytes; byte += 8)
    write
      .load('u64', 1, from, byte)
      .load('u64', 2, stack, place + byte)
      .ifDiffer(1, 2, otherwise)
}

/** Where a socket was led to a VIP's endpoint, its peer is shown as the VIP that it dialled. */
const backward = (family: Family, hook: 'peer' | 'receive'): Program => {
  const write = new Assembler()
  const key = -socketKey.size
  write.move(context, 1)
  readAddress(write, family, key + socketKey.address)
  write
    .move(1, context)
    .call(helpers.socketCookie)
    .store('u64', stack, key + socketKey.cookie, 0)
  if (hook === 'peer') {
    write
      .load('u8', 1, stack, key + socketKey.address + address.protocol)
      .ifNotEqual(1, IPPROTO_TCP, 'UDP')
    lookUp(write, 'peers', key).jump('found').label('UDP')
  }
  lookUp(write, 'reverse', key).label('found').ifEqual(0, 0, 'as it is').move(2, 0)
  writeAddress(write, family, 2)
  return write.label('as it is').set(0, 1).exit().program()
}

/** Of struct bpf_sock_ops. */
const operation = {
  kind: 0,
  before: 4,
  after: 8,
  family: 20,
  ip4: 24,
  ip6: 32,
  port: 64,
  callbacks: 84,
} as const
/** Operations of enum bpf_sock_ops op. */
const connects = 3
const changesState = 10
/** BPF_SOCK_OPS_STATE_CB_FLAG */
const stateCallback = 4
/** States of TCP (include/net/tcp_states.h). */
const synSent = 2
const closed = 7
const AF_INET = 2

const peer = -address.size
const failedAt = peer - 8

/** Remembers where a TCP connect has failed, and when: the next ones pass that endpoint over. */
const failures = (): Program => {
  const write = new Assembler()
  write
    .move(context, 1)
    .load('u32', 1, context, operation.kind)
    .ifEqual(1, connects, 'connects')
    .ifNotEqual(1, changesState, 'done')
    .load('u32', 1, context, operation.before)
    .ifNotEqual(1, synSent, 'done')
    .load('u32', 1, context, operation.after)
    .ifNotEqual(1, closed, 'done')
  readPeer(write)
  write.call(helpers.nanoseconds).store('u64', stack, failedAt, 0)
  put(write, 'failed', peer, failedAt)
  write
    .jump('done')
    .label('connects')
    .move(1, context)
    // Beside those that others have asked for.
    .load('u32', 2, context, operation.callbacks)
    .orValue(2, stateCallback)
    .call(helpers.setCallbacks)
  return write.label('done').set(0, 1).exit().program()
}

const readPeer = (write: Assembler): void => {
  write.load('u32', 1, context, operation.family).ifNotEqual(1, AF_INET, 'IPv6')
  readIp(write, 4, context, operation, peer)
  write.jump('port').label('IPv6')
  readIp(write, 6, context, operation, peer)
  write
    .label('port')
    .storeValue('u64', stack, peer + address.port, 0)
    .load('u32', 1, context, operation.port)
    // In the upper half, in network order (include/uapi/linux/bpf.h).
    .shiftRight(1, 16)
    .store('u16', stack, peer + address.port, 1)
}
