import { type Assembler, stack } from '../bpf/assembler.ts'
import { address } from './tables.ts'

/** Of struct bpf_sock_addr: what a socket dials, or what a datagram comes from; and its own end, of a datagram. */
const dialled = {
  ip4: 4,
  ip6: 8,
  port: 24,
  protocol: 36,
  own4: 40,
  own6: 44,
  socket: 64,
} as const
/** Of struct bpf_sock. */
const socket = { device: 0, own4: 24, own6: 28, state: 72 } as const
/** `lo` has it in each network namespace (LOOPBACK_IFINDEX). */
const loopbackDevice = 1
const TCP_ESTABLISHED = 1

/** Functions of the kernel's (enum bpf_func_id, bpf-helpers(7)). */
export const helpers = {
  lookup: 1,
  update: 2,
  delete: 3,
  nanoseconds: 5,
  random: 7,
  socketCookie: 46,
  setCallbacks: 59,
  networkCookie: 122,
  setReturn: 187,
} as const

export type Family = 4 | 6

export const IPPROTO_TCP = 6

const words = [0, 4, 8, 12] as const
/** The third word of an IPv4 address: ::ffff:0:0, in network order. */
const mappedMark = 0xffff0000

/** Copies the address that `context` has, with its port and protocol, to the stack. Changes r1. */
export const readAddress = (
  write: Assembler,
  family: Family,
  context: number,
  at: number,
): void => {
  if (family === 6)
    for (const word of words)
      write.load('u32', 1, context, dialled.ip6 + word).store('u32', stack, at + word, 1)
  else
    write
      .storeValue('u64', stack, at, 0)
      .storeValue('u32', stack, at + 8, mappedMark)
      .load('u32', 1, context, dialled.ip4)
      .store('u32', stack, at + 12, 1)
  write
    .storeValue('u64', stack, at + address.port, 0)
    .load('u32', 1, context, dialled.port)
    .store('u16', stack, at + address.port, 1)
    .load('u32', 1, context, dialled.protocol)
    .store('u8', stack, at + address.protocol, 1)
}

/**
 * Goes to `otherwise` where a socket's own end does not get to an endpoint: it is bound to `lo`, or to an address of loopback
 * or of a link (`specialRange`). Bytes of the stack from `at` on are used; changes r1 and `socketAt`.
 */
export const ifOwnEndIsSpecial = (
  write: Assembler,
  family: Family,
  isDatagram: boolean,
  {
    context,
    socketAt,
    at,
    otherwise,
  }: Readonly<Record<'context' | 'socketAt' | 'at', number>> & {
    readonly otherwise: string
  },
): void => {
  write
    .load('u64', socketAt, context, dialled.socket)
    .load('u32', 1, socketAt, socket.device)
    .ifEqual(1, loopbackDevice, otherwise)
  // A datagram may have another than its socket (IP_PKTINFO).
  const [from, own] = isDatagram ? [context, dialled] : [socketAt, socket]
  if (family === 6) {
    for (const word of words)
      write.load('u32', 1, from, own.own6 + word).store('u32', stack, at + word, 1)
    write
      .load('u64', 1, stack, at)
      .ifNotEqual(1, 0, 'own IPv6')
      .load('u16', 1, stack, at + 10)
      .ifEqual(1, 0xffff, 'own IPv4')
      // ::1, on a machine whose lower bytes come first.
      .load('u32', 1, stack, at + 12)
      .ifEqual(1, 0x01000000, otherwise)
      .jump('own end fits')
      .label('own IPv6')
      .load('u16', 1, stack, at)
      .andValue(1, 0xc0ff)
      .ifEqual(1, 0x80fe, otherwise)
      .jump('own end fits')
  } else write.load('u32', 1, from, own.own4).store('u32', stack, at + 12, 1)
  write
    .label('own IPv4')
    .load('u8', 1, stack, at + 12)
    .ifEqual(1, 127, otherwise)
    .load('u16', 1, stack, at + 12)
    .ifEqual(1, 0xfea9, otherwise)
    .label('own end fits')
}

/** Goes there where a socket has a peer. Changes r1. */
export const ifHasPeer = (write: Assembler, context: number, label: string): void => {
  write
    .load('u64', 1, context, dialled.socket)
    .load('u32', 1, 1, socket.state)
    .ifEqual(1, TCP_ESTABLISHED, label)
}

/** Makes an address on the stack what node ports of its family go by. Changes r1. */
export const toNodePort = (write: Assembler, family: Family, at: number): void => {
  if (family === 6) {
    write
      .load('u64', 1, stack, at)
      .ifNotEqual(1, 0, 'IPv6')
      .load('u16', 1, stack, at + 8)
      .ifNotEqual(1, 0, 'IPv6')
      .load('u16', 1, stack, at + 10)
      .ifEqual(1, 0xffff, 'IPv4')
      .label('IPv6')
      .storeValue('u64', stack, at, 0)
      .storeValue('u32', stack, at + 8, 0)
      .label('IPv4')
  }
  write
    .storeValue('u32', stack, at + 12, 0)
    .storeValue('u8', stack, at + address.isNodePort, 1)
}

/** Puts an address of the tables, to which `from` points, into the context. Changes r1. */
export const writeAddress = (
  write: Assembler,
  family: Family,
  context: number,
  from: number,
): void => {
  if (family === 6)
    for (const word of words)
      write.load('u32', 1, from, word).store('u32', context, dialled.ip6 + word, 1)
  else write.load('u32', 1, from, 12).store('u32', context, dialled.ip4, 1)
  write.load('u16', 1, from, address.port).store('u32', context, dialled.port, 1)
}

/** The element whose key is at `key` of the stack comes into r0: where it is, or 0. Changes r1 to r5. */
export const lookUp = (write: Assembler, table: string, key: number): Assembler =>
  write.map(1, table).stackAddress(2, key).call(helpers.lookup)

/** Key and value from the stack; flags as of `bpf_map_update_elem`. Changes r0 to r5. */
export const put = (
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
export const copy = (
  write: Assembler,
  from: number,
  offset: number,
  at: number,
  bytes: number,
): void => {
  for (let byte = 0; byte < bytes; byte += 8)
    write.load('u64', 1, from, offset + byte).store('u64', stack, at + byte, 1)
}

/** Goes on where the stack has the same 64-bit words as where `from` points to. Changes r1, r2. */
export const ifOther = (
  write: Assembler,
  from: number,
  at: number,
  bytes: number,
  otherwise: string,
): void => {
  for (let byte = 0; byte < bytes; byte += 8)
    write
      .load('u64', 1, from, byte)
      .load('u64', 2, stack, at + byte)
      .ifDiffer(1, 2, otherwise)
}
