import { type Cidr, parseCidr } from '../../util/cidr.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { KernelSettings } from '../proxier.ts'
import { ifLocal, ifNotLocal } from '../xtables/local-pods.ts'
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
 * Node ports on 127.0.0.1. They need net.ipv4.conf.all.route_localnet = 1, which is
 * set with the other sysctls, and with it the rule against CVE-2020-8558 in KUBE-FIREWALL.
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
