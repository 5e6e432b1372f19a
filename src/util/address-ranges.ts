import { type Cidr, parseCidr } from './cidr.ts'
import { familyOf } from './ip.ts'

/**
 * Addresses of which it is asked again and again whether one is among them: of each family ranges
 * that are sorted and don't touch. Plain data in memory that threads share; to be made once for a list, as
 * that takes a while, and looked up in a microsecond even where there are 100,000.
 */
export interface AddressRanges {
  /** For each range its first and its last address. */
  readonly ipv4: Uint32Array
  /** The same, each address as four words. */
  readonly ipv6: Uint32Array
}

/** A block, or a single address: `10.0.0.0/8`, `fd00::1`. Undefined when the text is neither. */
export const readBlock = (text: string): Cidr | undefined => {
  if (text.includes('/')) return parseCidr(text)
  const family = familyOf(text)
  return family && parseCidr(`${text}/${family === 'IPv4' ? 32 : 128}`)
}

/** In any order; they may overlap. */
export const addressRanges = (blocks: Iterable<Cidr>): AddressRanges => {
  const ipv4: number[] = []
  const ipv6: Cidr[] = []
  for (const block of blocks) {
    if (block.family === 'IPv6') ipv6.push(block)
    else ipv4.push((block.words[0] ?? 0) * 64 + (32 - block.prefixLength))
  }
  return { ipv4: ipv4Ranges(Float64Array.from(ipv4)), ipv6: ipv6Ranges(ipv6) }
}

/** Of texts; what is no block is left out. */
export const rangesOf = (texts: readonly string[]): AddressRanges =>
  addressRanges(texts.flatMap(text => readBlock(text) ?? []))

export const isEmpty = ({ ipv4, ipv6 }: AddressRanges): boolean =>
  ipv4.length + ipv6.length === 0

/** The same in memory of their own, that threads share. */
export const ownRanges = ({ ipv4, ipv6 }: AddressRanges): AddressRanges => ({
  ipv4: shared(ipv4),
  ipv6: shared(ipv6),
})

/** `words`: an address, one word for IPv4 (mapped into IPv6, too), four for IPv6. */
export const isAmong = (
  { ipv4, ipv6 }: AddressRanges,
  words: ArrayLike<number>,
): boolean => {
  if (words.length === 4) {
    const at = lastFrom(ipv6, words)
    return at >= 0 && compare(words, ipv6, at + 4) <= 0
  }
  const word = words[0] ?? 0
  let low = 0
  let high = ipv4.length >> 1
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ipv4[middle * 2] ?? 0) <= word) low = middle + 1
    else high = middle
  }
  return low > 0 && word <= (ipv4[low * 2 - 1] ?? 0)
}

/** The same in any of several. */
export const isAmongAny = (
  all: readonly AddressRanges[],
  words: ArrayLike<number>,
): boolean => {
  for (const ranges of all) if (isAmong(ranges, words)) return true
  return false
}

/** Where the last range is that begins with this address or before it; -1: none does. */
const lastFrom = (ranges: Uint32Array, words: ArrayLike<number>): number => {
  let low = 0
  let high = ranges.length >> 3
  while (low < high) {
    const middle = (low + high) >> 1
    if (compare(words, ranges, middle * 8) >= 0) low = middle + 1
    else high = middle
  }
  return (low - 1) * 8
}

/** An address with the one at `at`: negative when it is before that. */
const compare = (
  words: ArrayLike<number>,
  others: ArrayLike<number>,
  at: number,
): number => {
  for (let i = 0; i < 4; i += 1) {
    const difference = (words[i] ?? 0) - (others[at + i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** Each key is a block's first address, times 64, and how many bits of it are free. */
const ipv4Ranges = (keys: Float64Array): Uint32Array => {
  keys.sort()
  const found: number[] = []
  let last = -2
  for (const key of keys) {
    const first = Math.floor(key / 64)
    const end = first + 2 ** (key % 64) - 1
    if (first > last + 1) found.push(first, end)
    else if (end > last) found[found.length - 1] = end
    last = Math.max(last, end)
  }
  return shared(found)
}

const ipv6Ranges = (blocks: Cidr[]): Uint32Array => {
  blocks.sort((a, b) => compare(a.words, b.words, 0) || a.prefixLength - b.prefixLength)
  const found: number[] = []
  for (const { words, masks } of blocks) {
    // Of two blocks one holds the other, or they have nothing in common.
    if (found.length > 0 && compare(words, found, found.length - 4) <= 0) continue
    found.push(...words)
    for (const [i, word] of words.entries()) found.push((word | ~(masks[i] ?? 0)) >>> 0)
  }
  return shared(found)
}

const shared = (words: ArrayLike<number>): Uint32Array => {
  const memory = new Uint32Array(new SharedArrayBuffer(words.length * 4))
  memory.set(words)
  return memory
}
