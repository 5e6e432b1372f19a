import type { AddressPort } from '../../util/ip.ts'
import { joinHostPort } from '../../util/ip.ts'
import { addressOf } from './addresses.ts'

/** Runs ss(8) in one network namespace. */
export type RunSs = (args: readonly string[]) => Promise<string>

/** A socket of UDP that has a peer. */
export interface ConnectedUdp {
  /** The kernel's number of it (SO_COOKIE), hexadecimal: never that of another one. */
  readonly cookie: string
  /** As ss takes it, without an interface. */
  readonly local: string
  readonly peer: string
  /** The peer, as in the table `reverse`. */
  readonly endpoint: string
  /** The same for sockets that the kernel tells apart by nothing but their cookies. */
  readonly ends: string
}

/**
 * Conditions in one filter. The kernel takes 64 KB of them; 2000 are too many, and ss then falls
 * back to /proc/net/udp, which has no cookies.
 */
const lotSize = 100

const connected = ['-H', '-n', '-u', '-e', 'state', 'established']

/** Those whose peer is one of these. Rejects where ss does not tell which socket is which. */
export const connectedTo = async (
  runSs: RunSs,
  endpoints: readonly AddressPort[],
): Promise<readonly ConnectedUdp[]> => {
  const found: ConnectedUdp[] = []
  for (const some of lots(endpoints)) {
    const peers = some.map(({ address, port }) => `dst ${joinHostPort(address, port)}`)
    const output = await runSs([...connected, peers.join(' or ')])
    found.push(...output.split('\n').filter(Boolean).map(readSocket))
  }
  return found
}

/**
 * Ends them (SOCK_DESTROY of sock_diag(7)), as far as the kernel does: `ss -K` exits with 0 however
 * many are left. Gives why, where ss says something.
 */
export const destroy = async (
  runSs: RunSs,
  sockets: readonly ConnectedUdp[],
): Promise<string | undefined> => {
  let why: string | undefined
  for (const some of lots(sockets)) {
    const each = some.map(({ local, peer }) => `( src ${local} and dst ${peer} )`)
    const output = await runSs(['-K', ...connected, each.join(' or ')])
    // It prints those that it ended. Refused (EPERM) it goes on with /proc/net/udp, and ends none.
    const isRefused = output.split('\n').some(line => line !== '' && !hasCookie(line))
    if (isRefused) why = 'ss -K: not permitted (CAP_NET_ADMIN)'
  }
  return why
}

const hasCookie = (line: string): boolean => / sk:[\da-f]+/.test(line)

/** Recv-Q, Send-Q, local, peer; then what -e adds, cookie before the path of the cgroup. */
const pattern = /^\d+\s+\d+\s+(\S+):(\d+)\s+(\S+):(\d+)\s.*?\bsk:([\da-f]+)/

const readSocket = (line: string): ConnectedUdp => {
  const [, from = '', fromPort, to = '', toPort, cookie] = pattern.exec(line) ?? []
  if (cookie === undefined)
    throw new Error('ss does not tell which socket is which (CONFIG_INET_UDP_DIAG)')
  const local = { address: plain(from), port: Number(fromPort) }
  const peer = { address: plain(to), port: Number(toPort) }
  const endpoint = addressOf(peer.address, peer.port, 'UDP')
  return {
    cookie,
    local: joinHostPort(local.address, local.port),
    peer: joinHostPort(peer.address, peer.port),
    endpoint,
    ends: `${addressOf(local.address, local.port)}${endpoint}`,
  }
}

/** Without brackets, and without the interface of a socket that is bound to one. */
const plain = (address: string): string =>
  address.replace(/[[\]]/g, '').replace(/%.*$/, '')

function* lots<T>(items: readonly T[]): Iterable<readonly T[]> {
  for (let i = 0; i < items.length; i += lotSize) yield items.slice(i, i + lotSize)
}
