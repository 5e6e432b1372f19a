import { canonicalIp, familyOf, type IpFamily } from './ip.ts'

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
  if (!ip.includes(':')) return [wordOf(ip.split('.').map(Number), 8)]
  const [head = '', tail] = ip.split('::')
  const left = groupsOf(head)
  const right = groupsOf(tail ?? '')
  const gap = Array.from({ length: 8 - left.length - right.length }, () => 0)
  const groups = [...left, ...gap, ...right]
  return [0, 2, 4, 6].map(i => wordOf(groups.slice(i, i + 2), 16))
}

/** Big-endian; multiplied, because a shift into bit 31 would turn negative. */
const wordOf = (parts: readonly number[], bits: number): number =>
  parts.reduce((word, part) => word * 2 ** bits + part, 0)

/** Of one side of `::`. Canonical addresses may still end in dotted decimals. */
const groupsOf = (text: string): number[] =>
  text === ''
    ? []
    : text.split(':').flatMap(group => {
        if (!group.includes('.')) return parseInt(group, 16)
        const word = wordOf(group.split('.').map(Number), 8)
        return [Math.floor(word / 0x1_0000), word % 0x1_0000]
      })

const textOf = (words: readonly number[]): string => {
  if (words.length === 1) {
    return [24, 16, 8, 0].map(shift => ((words[0] ?? 0) >>> shift) & 255).join('.')
  }
  const groups = words.flatMap(word => [word >>> 16, word & 0xffff])
  const text = groups.map(group => group.toString(16)).join(':')
  return canonicalIp(text) ?? text
}
