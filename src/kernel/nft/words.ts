import type { Protocol } from '../../model/service.ts'
import type { IpFamily } from '../../util/ip.ts'

/** Usher's table; there is one in each family. */
export const tableName = 'usher'

/** Before the names of the tables that only a probe makes, and takes away again. */
export const probeTablePrefix = 'usher-probe-'

/** How nft calls things of one family. */
export interface FamilyWords {
  /** Of tables, and of the header's fields. */
  readonly family: 'ip' | 'ip6'
  readonly addressType: 'ipv4_addr' | 'ipv6_addr'
  readonly icmp: 'icmp' | 'icmpv6'
}

const words: Readonly<Record<IpFamily, FamilyWords>> = {
  IPv4: { family: 'ip', addressType: 'ipv4_addr', icmp: 'icmp' },
  IPv6: { family: 'ip6', addressType: 'ipv6_addr', icmp: 'icmpv6' },
}

export const familyWords = (family: IpFamily): FamilyWords => words[family]

/**
 * Numbers, not names: nft looks a name up in /etc/protocols, which small images lack, and
 * reads that file for each element.
 */
export const protocolNumber: Readonly<Record<Protocol, number>> = {
  TCP: 6,
  UDP: 17,
  SCTP: 132,
}
