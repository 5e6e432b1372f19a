import type { IpFamily } from '../../util/ip.ts'

/** One way in which Linux takes addresses for its own, in the words of `ip`. */
export interface AddressKind {
  readonly family: IpFamily
  /** Whether a whole range can be set at once. */
  readonly ranges: boolean
  /** A line for `ip -batch` each. */
  readonly add: (cidr: string) => string
  readonly remove: (cidr: string) => string
  /** Arguments of `ip` that print those that bear Usher's mark, and maybe others. */
  readonly list: readonly string[]
  /** The canonical CIDR in such a line, if it bears the mark; undefined if not. */
  readonly marked: (line: string) => string | undefined
  /** Arguments that print the addresses that the host has, in the form of `held`. */
  readonly listHeld: readonly string[]
  /** What such a line says. */
  readonly held: (line: string) => Held | undefined
}

/** Something that the host has. */
export interface Held {
  readonly cidr: string
  /** `local`, or what else it is: `broadcast`. */
  readonly type: string
}

/**
 * Who made a route (ip-route(8), `proto`); numbers that have no name are free for all.
 * 117 is the letter u.
 */
const routeProtocol = 117

/**
 * Addresses got a protocol of their own with Linux 5.18 and iproute2 6.3. The metric of an
 * address, there since Linux 4.18, means nothing without a prefix route, and so is free to
 * be a mark: `ushr`.
 */
const addressMetric = 0x75_73_68_72

/**
 * A local route makes a range or any number of addresses the host's own at once, and no
 * list of interfaces grows. bind(2) takes an IPv4 address that a local route has.
 */
export const ipv4Routes: AddressKind = localRoutes('IPv4')

/** bind(2) takes such an address only where net.ipv6.ip_nonlocal_bind is 1. */
export const ipv6Routes: AddressKind = localRoutes('IPv6')

/**
 * bind(2) wants an IPv6 address to be on an interface (inet6_bind). It is the loopback
 * interface: it is there on every kernel, and no program takes what is on it for the
 * address of the node. Preferred for no time it is the source of no connection (RFC 6724,
 * rule 3), and no /128 needs a prefix route.
 */
export const ipv6OnLoopback: AddressKind = {
  family: 'IPv6',
  ranges: false,
  add: cidr =>
    `addr add ${cidr} dev lo nodad preferred_lft 0 noprefixroute metric ${addressMetric}`,
  remove: cidr => `addr del ${cidr} dev lo`,
  list: ['-6', '-o', 'addr', 'show', 'dev', 'lo'],
  marked: line =>
    line.includes(` metric ${addressMetric} `) ? addressIn(line) : undefined,
  // Usher's own are deprecated, and `-deprecated` leaves those out.
  listHeld: ['-6', '-o', 'addr', 'show', '-deprecated'],
  held: line => {
    const cidr = addressIn(line)
    return cidr === undefined ? undefined : { cidr, type: 'local' }
  },
}

function localRoutes(family: IpFamily): AddressKind {
  const version = family === 'IPv4' ? '-4' : '-6'
  const table = [version, 'route', 'show', 'table', 'local']
  return {
    family,
    ranges: true,
    add: cidr => `route add local ${cidr} dev lo proto ${routeProtocol}`,
    remove: cidr => `route del local ${cidr} dev lo proto ${routeProtocol}`,
    list: [...table, 'proto', String(routeProtocol)],
    marked: line => routeIn(line, family)?.cidr,
    listHeld: table,
    held: line => routeIn(line, family),
  }
}

/** `1: lo    inet6 fd00::7/128 metric 9 scope global ...`: the address as a /128. */
const addressIn = (line: string): string | undefined => {
  const address = /\sinet6 ([0-9a-f:.]+)\//.exec(line)?.[1]
  return address === undefined ? undefined : `${address}/128`
}

/** `local 10.96.0.0/12 dev lo scope host`; a single address has no length. */
const routeIn = (line: string, family: IpFamily): Held | undefined => {
  const [type, to] = line.split(' ', 2)
  if (type === undefined || to === undefined) return undefined
  const single = family === 'IPv4' ? '/32' : '/128'
  return { type, cidr: to.includes('/') ? to : `${to}${single}` }
}
