import { type Cidr, parseCidr } from '../../util/cidr.ts'
import { canonicalIp, type IpFamily } from '../../util/ip.ts'
import type { KernelSettings, LocalDetector } from '../proxier.ts'
import type { Features } from './features.ts'

/** What the rules of a ServicePort go by besides itself. */
export interface Context {
  readonly family: IpFamily
  /** Which clients of ClusterIPs are masqueraded: a match, '' for all, undefined for none. */
  readonly masquerade: string | undefined
  /** Matches for packets from pods of this node. */
  readonly ifLocal: readonly string[]
  /** Whether accepted packets to node ports on 127.0.0.1 are counted. */
  readonly countsLocalhost: boolean
  /** More than 1000 endpoints: their rules have no comments, which saves 40 % of the text. */
  readonly isLarge: boolean
}

export const makeContext = (
  family: IpFamily,
  settings: KernelSettings,
  features: Features,
  isLarge: boolean,
): Context => {
  const { masqueradeAll, localDetector } = settings
  return {
    family,
    masquerade: masqueradeAll ? '' : ifNotLocal(localDetector),
    ifLocal: ifLocal(localDetector),
    countsLocalhost: features.nfacct && hasLocalhostNodePorts(family, settings),
    isLarge,
  }
}

/** kube-proxy's limit, of endpoints over all ServicePorts. */
export const largeCluster = 1000

/**
 * Node ports on 127.0.0.1. They need net.ipv4.conf.all.route_localnet = 1, which whoever
 * keeps the sysctls sets, and with it the rule against CVE-2020-8558 in KUBE-FIREWALL.
 */
export const hasLocalhostNodePorts = (
  family: IpFamily,
  { localhostNodePorts, nodePortCidrs }: KernelSettings,
): boolean =>
  family === 'IPv4' &&
  localhostNodePorts &&
  (nodePortCidrs === undefined || nodePortCidrs.some(holdsLoopback))

const loopback = parseCidr('127.0.0.0/8')

/** Whether some of 127.0.0.0/8 is in it. */
const holdsLoopback = (text: string): boolean => {
  const cidr = parseCidr(text)
  return cidr !== undefined && loopback !== undefined && overlap(cidr, loopback)
}

const overlap = (a: Cidr, b: Cidr): boolean =>
  a.words.length === b.words.length &&
  a.words.every((word, i) => {
    const mask = (a.masks[i] ?? 0) & (b.masks[i] ?? 0)
    return (word & mask) === ((b.words[i] ?? 0) & mask)
  })

/**
 * Matches for packets from pods of this node, one rule for each; none when it can't be
 * told.
 */
export const ifLocal = (detector: LocalDetector): readonly string[] => {
  if (detector.by === 'none') return []
  if (detector.by === 'source') return detector.cidrs.map(cidr => `-s ${cidr}`)
  return detector.by === 'bridge' ? [`-i ${detector.name}`] : [`-i ${detector.prefix}+`]
}

/**
 * The match of one rule for packets that don't come from pods of this node; undefined
 * when it can't be told. A rule has one source address, so that more than one block is
 * told by `iprange` matches beside it: a packet has to pass them all.
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
