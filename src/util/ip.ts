import { isIP, SocketAddress } from 'node:net'
import { isUnix, unixPlace } from './unix-address.ts'

export type IpFamily = 'IPv4' | 'IPv6'

export const ipFamilies: readonly IpFamily[] = ['IPv4', 'IPv6']

/** One of a thing for each family. */
export const perFamily = <T>(make: (family: IpFamily) => T): Record<IpFamily, T> => ({
  IPv4: make('IPv4'),
  IPv6: make('IPv6'),
})

/** The family of a literal address, or undefined when the text is not one. */
export const familyOf = (address: string): IpFamily | undefined => {
  const version = isIP(address)
  return version === 4 ? 'IPv4' : version === 6 ? 'IPv6' : undefined
}

/**
 * The one spelling of an address that is used as a key: IPv6 compressed and lower-case
 * (RFC 5952), IPv4 mapped into IPv6 turned back into IPv4. Undefined when the text is
 * not an address; leading zeros in IPv4 are refused, because programs disagree on
 * whether they are octal (CVE-2021-29923).
 */
export const canonicalIp = (text: string): string | undefined => {
  const family = familyOf(text)
  if (family === 'IPv4') return text
  if (family === undefined || text.includes('%')) return undefined
  const { address } = new SocketAddress({ address: text, family: 'ipv6' })
  return unmapped(address)
}

/** `::ffff:192.0.2.1`, as a dual-stack socket reports an IPv4 peer, to `192.0.2.1`. */
export const unmapped = (address: string): string =>
  address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address

/** A link-local address without its zone (`%eth0`), which has a meaning on this host alone. */
export const withoutZone = (address: string): string => address.replace(/%.*$/, '')

export const wildcardOf = (family: IpFamily): string =>
  family === 'IPv4' ? '0.0.0.0' : '::'

export const isWildcard = (address: string): boolean =>
  address === '0.0.0.0' || address === '::'

/**
 * Whether a canonical address is that of no single host: multicast or broadcast (224.0.0.0/4,
 * ff00::/8, 255.255.255.255). Linux lets a socket listen there, to which no client can connect.
 * 240.0.0.0/4 is reserved, but Linux routes it, and clouds give it to pods, nodes and Services.
 */
export const isGroup = (address: string): boolean =>
  address.includes(':')
    ? address.startsWith('ff')
    : /^2(2[4-9]|3\d)\./.test(address) || address === '255.255.255.255'

/** Of a canonical address: 127.0.0.0/8 or ::1. */
export const isLoopback = (address: string): boolean =>
  address.startsWith('127.') || address === '::1'

/** Where to listen, or what to dial. */
export interface AddressPort {
  readonly address: string
  readonly port: number
}

/** `192.0.2.1:80` or `[2001:db8::1]:80`; a unix socket has no port: `unix:/run/db.sock`. */
export const joinHostPort = (host: string, port: number): string => {
  if (!host.includes(':')) return `${host}:${port}`
  return isUnix(host) ? unixPlace(host) : `[${host}]:${port}`
}

/**
 * Splits `host:port`, `[v6]:port`. Undefined when the text has no port from
 * `lowest` to 65535 or an IPv6 host without brackets.
 */
export const splitHostPort = (
  text: string,
  lowest = 1,
): { host: string; port: number } | undefined => {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (host === undefined || !(port >= lowest && port <= 65535)) return undefined
  return { host, port }
}

/**
 * What to say to an IPv6 address without brackets, with a port behind it or not: where it ends
 * can't be told then. '' to any other text.
 */
export const bracketsAdvice = (text: string): string => {
  const [, host = text, port = 'PORT'] = /^(.*:.*):(\d{1,5})$/.exec(text) ?? []
  const [address, behind] = familyOf(host) === 'IPv6' ? [host, port] : [text, 'PORT']
  return familyOf(address) === 'IPv6'
    ? `has IPv6 without brackets; write [${address}]:${behind}`
    : ''
}

/** The 4 or 16 bytes of a literal address, in the order of the network; a zone is left out. */
export const addressBytes = (address: string): number[] => {
  if (!address.includes(':')) return bytesOfIpv4(address)
  const [head = '', tail = ''] = withoutZone(address).split('::')
  const front = groupBytes(head)
  const back = groupBytes(tail)
  return [...front, ...Array<number>(16 - front.length - back.length).fill(0), ...back]
}

/** Tables of a hundred thousand endpoints ask for it: a fifth of the time that `split` takes. */
const bytesOfIpv4 = (address: string): number[] => {
  const bytes = [0, 0, 0, 0]
  let byte = 0
  for (let at = 0; at < address.length; at += 1) {
    const code = address.charCodeAt(at)
    if (code === dot) byte += 1
    else bytes[byte] = (bytes[byte] ?? 0) * 10 + code - zero
  }
  return bytes
}

const dot = 0x2e
const zero = 0x30

const groupBytes = (text: string): number[] => {
  if (text === '') return []
  return text.split(':').flatMap(group => {
    if (group.includes('.')) return bytesOfIpv4(group)
    const value = Number.parseInt(group, 16)
    return [value >> 8, value & 0xff]
  })
}

/** The other way round: of 4 or 16 bytes, canonical. */
export const addressText = (bytes: ArrayLike<number>): string => {
  if (bytes.length === 4) return Array.from(bytes).join('.')
  const groups = Array.from({ length: 8 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  )
  return canonicalIp(groups.join(':')) ?? ''
}
