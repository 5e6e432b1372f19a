import { parseCidr } from '../../util/cidr.ts'
import { canonicalIp } from '../../util/ip.ts'
import type { LocalDetector } from '../proxier.ts'

/**
 * Matches for packets from pods of this node, one rule for each; none when that is
 * not known.
 */
export const ifLocal = (detector: LocalDetector): readonly string[] => {
  if (detector.by === 'none') return []
  if (detector.by === 'source') return detector.cidrs.map(cidr => `-s ${cidr}`)
  return detector.by === 'bridge' ? [`-i ${detector.name}`] : [`-i ${detector.prefix}+`]
}

/**
 * The match of one rule for packets that don't come from pods of this node; undefined
 * when that is not known. A rule has one source address, so that further blocks are
 * `iprange` matches beside it: a packet has to pass them all.
 */
export const ifNotLocal = (detector: LocalDetector): string | undefined => {
  const [first] = ifLocal(detector)
  if (first === undefined) return undefined
  const others = detector.by === 'source' ? detector.cidrs.slice(1) : []
  const ranges = others.map(cidr => `! --src-range ${rangeOf(cidr)}`)
  return [`! ${first}`, ...ranges].join(' -m iprange ')
}

/** `10.0.0.0-10.0.0.255`, first and last address. */
const rangeOf = (cidr: string): string => {
  const block = parseCidr(cidr)
  if (block === undefined) throw new Error(`not a CIDR: ${cidr}`)
  const [first = ''] = block.text.split('/')
  const last = block.words.map((word, i) => (word | ~(block.masks[i] ?? 0)) >>> 0)
  return `${first}-${addressOf(last)}`
}

const addressOf = (words: readonly number[]): string => {
  const [word = 0] = words
  if (words.length === 1)
    return [24, 16, 8, 0].map(shift => (word >>> shift) & 255).join('.')
  const groups = words.flatMap(each => [each >>> 16, each & 0xffff])
  const text = groups.map(group => group.toString(16)).join(':')
  return canonicalIp(text) ?? text
}
