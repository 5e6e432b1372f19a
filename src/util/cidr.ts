import { addressBytes, addressText, canonicalIp, familyOf, type IpFamily } from './ip.ts'

/** A block of addresses of one family. */
export interface Cidr {
  readonly family: IpFamily
  /** Canonical, without host bits: `10.0.0.0/8`, `2001:db8::/32`. */
  readonly text: string
  /** 0 to 32, or to 128. */
  readonly prefixLength: number
  /** The network in words of 32 bits: one for IPv4, four for IPv6. */
  readonly words: readonly number[]
  /** For each word the bits that count. */
  readonly masks: readonly number[]
}

/**
 * Reads `address/length`. Host bits are cleared, and IPv4 mapped into IPv6 is turned back
 * where the length leaves the mapping whole. Undefined when it is no CIDR: as for plain
 * addresses, leading zeros are refused (CVE-2021-29923).
 */
export const parseCidr = (text: string): Cidr | undefined => {
  const match = /^([^/%]+)\/(0|[1-9]\d{0,2})$/.exec(text)
  const [address, length] = [match?.[1] ?? '', Number(match?.[2])]
  const written = familyOf(address)
  const words = addressWords(address)
  if (match === null || written === undefined || words === undefined) return undefined
  if (length > (written === 'IPv4' ? 32 : 128)) return undefined
  const mapped = written === 'IPv6' && words.length === 1
  if (mapped && length >= 96) return block(words, length - 96)
  return block(mapped ? [0, 0, 0xffff, ...words] : words, length)
}

/** One address as a block. */
export const asCidr = (address: string): string =>
  address.includes(':') ? `${address}/128` : `${address}/32`

export const isSingle = (cidr: string): boolean =>
  cidr.endsWith(cidr.includes(':') ? '/128' : '/32')

/** Those of one family, canonical. */
export const cidrsOfFamily = (
  texts: readonly string[],
  family: IpFamily,
): readonly string[] =>
  texts.flatMap(text => {
    const cidr = parseCidr(text)
    return cidr?.family === family ? [cidr.text] : []
  })

/**
 * Whether a block holds an address. IPv4 mapped into IPv6 counts as IPv4; text that is
 * not an address, and one with a zone (`fe80::1%eth0`), is in no block.
 */
export const cidrContains = ({ words, masks }: Cidr, address: string): boolean => {
  const given = addressWords(address)
  return (
    given?.length === words.length &&
    words.every((word, i) => and(given[i], masks[i]) === word)
  )
}

/** Whether a block holds one of the addresses; text that is no block holds none. */
export const cidrHoldsAny = (text: string, addresses: readonly string[]): boolean => {
  const cidr = parseCidr(text)
  return cidr !== undefined && addresses.some(one => cidrContains(cidr, one))
}

/** Whether a block is the other or part of it; text that is no block is in none. */
export const isCidrWithin = (text: string, other: string): boolean => {
  const [inner, outer] = [parseCidr(text), parseCidr(other)]
  const [network = ''] = text.split('/')
  return (
    inner !== undefined &&
    outer !== undefined &&
    inner.prefixLength >= outer.prefixLength &&
    cidrContains(outer, network)
  )
}

const block = (given: readonly number[], prefixLength: number): Cidr => {
  const masks = given.map((_, i) => maskOf(prefixLength - 32 * i))
  const words = given.map((word, i) => and(word, masks[i]))
  const family = words.length === 1 ? 'IPv4' : 'IPv6'
  return { family, text: `${textOf(words)}/${prefixLength}`, prefixLength, words, masks }
}

/** The first `bits` of 32 set; shifting by 32 would shift by 0. */
const maskOf = (bits: number): number =>
  bits <= 0 ? 0 : bits >= 32 ? 0xffff_ffff : (0xffff_ffff << (32 - bits)) >>> 0

const and = (a = 0, b = 0): number => (a & b) >>> 0

/**
 * An address as words of 32 bits, one for IPv4 (mapped too), four for IPv6; undefined when it is
 * none, or has a zone.
 */
export const addressWords = (address: string): readonly number[] | undefined => {
  const ip = familyOf(address) === 'IPv4' ? address : canonicalIp(address)
  if (ip === undefined) return undefined
  const bytes = addressBytes(ip)
  return Array.from({ length: bytes.length / 4 }, (_, i) =>
    wordOf(bytes.slice(4 * i, 4 * i + 4)),
  )
}

/** Big-endian; multiplied, because a shift into bit 31 would turn negative. */
const wordOf = (bytes: readonly number[]): number =>
  bytes.reduce((word, byte) => word * 256 + byte, 0)

const textOf = (words: readonly number[]): string =>
  addressText(words.flatMap(word => [24, 16, 8, 0].map(shift => (word >>> shift) & 255)))
