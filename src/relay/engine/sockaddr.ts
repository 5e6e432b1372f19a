import { addressBytes, familyOf } from '../../util/ip.ts'
import { isUnix, unixPath, unixPeer } from '../../util/unix-address.ts'
import { AF_INET, AF_INET6, AF_UNIX } from '../../ffi/constants.ts'
import type { NativeMemory } from '../../ffi/syscalls.ts'

/** Bytes of struct sockaddr_in and sockaddr_in6. */
export const sockaddrLength = { IPv4: 16, IPv6: 28 } as const

/**
 * Writes an address as struct sockaddr_in, sockaddr_in6 or sockaddr_un and gives its length. Throws
 * on what is no literal address, which callers have made sure of.
 */
export const writeSockaddr = (
  { bytes, view }: Pick<NativeMemory, 'bytes' | 'view'>,
  offset: number,
  address: string,
  port: number,
): number => {
  if (isUnix(address)) return writeUnix(bytes, view, offset, address)
  const family = familyOf(address)
  if (family === undefined) throw new Error(`${address} is not an IP address`)
  const length = sockaddrLength[family]
  bytes.fill(0, offset, offset + length)
  view.setUint16(offset, family === 'IPv4' ? AF_INET : AF_INET6, true)
  view.setUint16(offset + 2, port, false)
  bytes.set(addressBytes(address), offset + (family === 'IPv4' ? 4 : 8))
  return length
}

const writeUnix = (
  bytes: Uint8Array,
  view: DataView,
  offset: number,
  address: string,
): number => {
  const path = Buffer.from(unixPath(address))
  bytes.fill(0, offset, offset + 2 + path.length + 1)
  view.setUint16(offset, AF_UNIX, true)
  bytes.set(path, offset + 2)
  // Of an abstract name the length says where it ends, and all bytes are part of it.
  return 2 + path.length + (path[0] === 0 ? 0 : 1)
}

/**
 * The address and port of a struct sockaddr, spelled as `canonicalIp` does; IPv4 mapped
 * into IPv6 is given as IPv4. The zone of a link-local address is left out. Who is at the other
 * end of a unix socket has no address, but for its kind.
 */
export const readSockaddr = (
  { view }: Pick<NativeMemory, 'view'>,
  offset: number,
): { readonly address: string; readonly port: number } => {
  const family = view.getUint16(offset, true)
  if (family === AF_UNIX) return { address: unixPeer, port: 0 }
  const port = view.getUint16(offset + 2, false)
  return family === AF_INET6
    ? { address: readIpv6(view, offset + 8), port }
    : { address: readIpv4(view, offset + 4), port }
}

const ipv4Words = new Uint32Array(1)
const ipv6Words = new Uint32Array(4)

/**
 * The address of a struct sockaddr in words of 32 bits: one for IPv4, mapped into IPv6 too, or four;
 * of a unix socket 0. The next call overwrites them.
 */
export const readAddressWords = (
  { view }: Pick<NativeMemory, 'view'>,
  offset: number,
): Uint32Array => {
  const family = view.getUint16(offset, true)
  if (family !== AF_INET6) {
    ipv4Words[0] = family === AF_UNIX ? 0 : view.getUint32(offset + 4, false)
    return ipv4Words
  }
  for (let i = 0; i < 4; i += 1) ipv6Words[i] = view.getUint32(offset + 8 + 4 * i, false)
  const [first, second, third, last = 0] = ipv6Words
  if (first !== 0 || second !== 0 || third !== 0xffff) return ipv6Words
  ipv4Words[0] = last
  return ipv4Words
}

const readIpv4 = (view: DataView, at: number): string =>
  `${view.getUint8(at)}.${view.getUint8(at + 1)}.${view.getUint8(at + 2)}.${view.getUint8(at + 3)}`

/**
 * As Node spells it, since addresses are compared as text: compressed as in RFC 5952 (the
 * longest row of two or more zero groups, the first of equals), and the last 32 bits like
 * IPv4 after 96 zero bits (RFC 4291's IPv4-compatible addresses, as inet_ntop(3) has them).
 */
const readIpv6 = (view: DataView, at: number): string => {
  const groups = Array.from({ length: 8 }, (_, i) => view.getUint16(at + 2 * i, false))
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every(group => group === 0)
  if (isMapped) return readIpv4(view, at + 12)
  const { start, length } = longestZeros(groups)
  if (start === 0 && length === 6) return `::${readIpv4(view, at + 12)}`
  if (length < 2) return hex(groups)
  return `${hex(groups.slice(0, start))}::${hex(groups.slice(start + length))}`
}

const hex = (groups: readonly number[]): string =>
  groups.map(group => group.toString(16)).join(':')

const longestZeros = (groups: readonly number[]): { start: number; length: number } => {
  let best = { start: 0, length: 0 }
  let start = 0
  for (let end = 0; end <= groups.length; end += 1) {
    if (groups[end] === 0) continue
    if (end - start > best.length) best = { start, length: end - start }
    start = end + 1
  }
  return best
}
