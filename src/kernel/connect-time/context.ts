import { type Assembler, stack } from '../bpf/assembler.ts'
import { address } from './tables.ts'

/** Of struct bpf_sock_addr: what a socket dials, or what a datagram comes from; `own`: a datagram's own end. */
export const dialled = { ip4: 4, ip6: 8, port: 24, protocol: 36, socket: 64 } as const
export const own = { ip4: 40, ip6: 44 } as const
/** Of struct bpf_sock, with its own end. */
export const socket = { device: 0, ip4: 24, ip6: 28, state: 72 } as const

/** Functions of the kernel's (enum bpf_func_id, bpf-helpers(7)). */
export const helpers = {
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

export type Family = 4 | 6

export const IPPROTO_TCP = 6

const words = [0, 4, 8, 12] as const
/** The third word of an IPv4 address: ::ffff:0:0, in network order. */
const mappedMark = 0xffff0000

/** Copies an address, that is where `from` points to, to the stack. Changes r1. */
export const readIp = (
  write: Assembler,
  family: Family,
  from: number,
  { ip4, ip6 }: { readonly ip4: number; readonly ip6: number },
  at: number,
): void => {
  if (family === 6)
    for (const word of words)
      write.load('u32', 1, from, ip6 + word).store('u32', stack, at + word, 1)
  else
    write
      .storeValue('u64', stack, at, 0)
      .storeValue('u32', stack, at + 8, mappedMark)
      .load('u32', 1, from, ip4)
      .store('u32', stack, at + 12, 1)
}

/** Copies the address that `context` has, with its port and protocol, to the stack. Changes r1. */
export const readAddress = (
  write: Assembler,
  family: Family,
  context: number,
  at: number,
): void => {
  readIp(write, family, context, dialled, at)
  write
    .storeValue('u64', stack, at + address.port, 0)
    .load('u32', 1, context, dialled.port)
    .store('u16', stack, at + address.port, 1)
    .load('u32', 1, context, dialled.protocol)
    .store('u8', stack, at + address.protocol, 1)
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
