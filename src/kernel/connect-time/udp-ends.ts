import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type StoppableTools, type RunTool, ToolError } from '../run-tool.ts'
import { forEachAtOnce } from '../../util/at-once.ts'
import { readIfThere } from '../../util/read-text.ts'
import {
  address as format,
  addressOf,
  isGuarded,
  readAddressOf,
  socketKey,
} from './tables.ts'
import {
  holdNamespace,
  type NamespaceFolders,
  type NetworkNamespace,
  networkNamespaces,
  idOf,
} from './network-namespaces.ts'
import { type AddressPort, joinHostPort, familyOf } from '../../util/ip.ts'
import { flowKeepers } from '../../model/service.ts'
import type { ServicePort } from '../../model/snapshot.ts'
import { listDiff, forEachYielding } from '../../util/list-diff.ts'

export interface UdpEndsDeps {
  readonly tools: Pick<StoppableTools, 'run' | 'stop'>
  /** '' when nothing of UDP may stay where it should not. */
  readonly failed: (reason: string) => void
}

const nothing: Led = { servicePorts: [], nodeAddresses: [] }

/** Ends connected UDP sockets as their endpoints go, one look at the sockets of all namespaces after the other. */
export class UdpEnds {
  readonly #deps: UdpEndsDeps
  /** What was led by last; nothing when that is not known. */
  #led = nothing
  #underWay: Promise<void> = Promise.resolve()
  #error = ''
  #isStopped = false

  constructor(deps: UdpEndsDeps) {
    this.#deps = deps
  }

  /** Why sockets may stay where they should not; '' for no reason. */
  get error(): string {
    return this.#error
  }

  /**
   * Ends those that are not to stay where they are, now that `led` is in the tables. Not awaited:
   * there may be hundreds of network namespaces to look at.
   */
  end(led: Led, reverse: StaleUdpDeps['reverse']): void {
    const { tools, failed } = this.#deps
    const before = this.#led
    this.#led = led
    if (!losesUdp(before, led)) return
    const served = servedUdp(led)
    const ofNow = () => (this.#isStopped ? [] : reverse())
    const earlier = this.#underWay
    const end = async (): Promise<void> => {
      await earlier
      const reason = await endStaleUdp({ run: tools.run, reverse: ofNow }, served)
      if (this.#isStopped) return
      // The next one tries all again.
      if (reason.length > 0) this.#led = nothing
      this.#error = reason.join('; ')
      failed(this.#error)
    }
    this.#underWay = end()
  }

  /** What is led from now on was not led before. */
  forget(): void {
    this.#led = nothing
  }

  /** Its tools are ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#deps.tools.stop()
    await this.#underWay
  }
}

interface StaleUdpDeps {
  readonly run: RunTool
  /** Elements of the table `reverse`, bytes as latin1. */
  readonly reverse: () => Iterable<readonly [key: string, value: string]>
  /** Where the host's network namespaces are found. */
  readonly folders?: NamespaceFolders
}

/** By endpoint, as in `reverse`, the cookies of sockets that were led there and should not stay. */
type Stale = ReadonlyMap<string, ReadonlySet<string>>

/** Network namespaces in which a tool runs at once: it takes some milliseconds of a core. */
const atOnce = 4
const timeoutMs = 10_000

/**
 * Ends connected sockets of UDP that were led to an endpoint that is none of their VIP's now, or by
 * a VIP that is gone: no hook sees what they send, so they would stay there for ever (cilium#12859).
 * Call it when the tables are written, with all VIPs. Never rejects; gives what could not be done.
 */
export const endStaleUdp = async (
  { run, reverse, folders }: StaleUdpDeps,
  served: ServedUdp,
): Promise<readonly string[]> => {
  const problems = new Map<string, number>()
  const report = (problem: string): void =>
    void problems.set(problem, (problems.get(problem) ?? 0) + 1)
  try {
    const stale = await findStale(served, reverse())
    if (stale.size === 0) return []
    const { namespaces, hidden } = await networkNamespaces(folders)
    const ports = new Set(Array.from(stale.keys(), each => readAddressOf(each).port))
    await forEachAtOnce(atOnce, namespaces, async one => {
      try {
        if (await mayHavePeersAt(ports, one))
          await inNamespace(run, one, runSs => endAll(runSs, stale, report))
      } catch (error) {
        report(errorText(error))
      }
    })
    await forEachAtOnce(atOnce, hidden, async folder => {
      if (await sees(ports, folder)) report(unseen)
    })
  } catch (error) {
    report(errorText(error))
  }
  return Array.from(problems, ([problem, times]) => problemText(problem, times))
}

const problemText = (problem: string, times: number): string =>
  `UDP sockets may stay connected to endpoints that are gone: ${problem}${
    times > 1 ? ` (${times} times)` : ''
  }`

const findStale = async (
  served: ServedUdp,
  reverse: ReturnType<StaleUdpDeps['reverse']>,
): Promise<Stale> => {
  const stale = new Map<string, Set<string>>()
  await forEachYielding(reverse, ([key, vip]) => {
    const endpoint = key.slice(socketKey.address, socketKey.address + format.size)
    if (served.get(vip)?.has(endpoint) === true) return
    const cookie = Buffer.from(key, 'latin1').readBigUInt64LE(socketKey.cookie)
    const cookies = stale.get(endpoint) ?? new Set()
    stale.set(endpoint, cookies.add(cookie.toString(16)))
  })
  return stale
}

const inNamespace = async (
  run: RunTool,
  namespace: NetworkNamespace,
  use: (runSs: RunSs) => Promise<void>,
): Promise<void> => {
  // Without nsenter, which needs CAP_SYS_ADMIN here too (setns(2)).
  if (namespace.isOwn) return use(args => run('ss', args, { timeoutMs }))
  await holdNamespace(namespace, path =>
    use(args => run('nsenter', [`--net=${path}`, 'ss', ...args], { timeoutMs })),
  )
}

/** Ends those of one network namespace, and looks again, until none is left or none more goes. */
const endAll = async (
  runSs: RunSs,
  stale: Stale,
  report: (problem: string) => void,
): Promise<void> => {
  const endpoints = Array.from(stale.keys(), readAddressOf)
  const isStale = ({ endpoint, cookie }: ConnectedUdp): boolean =>
    stale.get(endpoint)?.has(cookie) === true
  let left = Number.POSITIVE_INFINITY
  let reason: string | undefined
  for (;;) {
    const found = await connectedTo(runSs, endpoints)
    // Of sockets with the same ends (SO_REUSEPORT) ss would end all.
    const staying = new Set(found.filter(one => !isStale(one)).map(({ ends }) => ends))
    const doomed = found.filter(isStale)
    const alone = doomed.filter(({ ends }) => !staying.has(ends))
    if (alone.length === 0 || alone.length >= left) {
      if (alone.length > 0) report(reason ?? noDestroy)
      if (alone.length < doomed.length) report(twins)
      return
    }
    left = alone.length
    reason = await destroy(runSs, alone)
  }
}

const unseen = 'where a process is can not be seen (CAP_SYS_PTRACE)'
const noDestroy = 'ss -K ends none of them (the kernel needs CONFIG_INET_DIAG_DESTROY)'
const twins = 'one has both ends in common with a socket that is to stay (SO_REUSEPORT)'

/** The same for all network namespaces, as far as it is the same. */
const errorText = (error: unknown): string => {
  if (!(error instanceof ToolError) || error.stderr === '')
    return (error as Error).message
  if (/failed to execute \S+: No such file/.test(error.stderr))
    return 'ss: not found; install it (Debian package iproute2)'
  const [line = ''] = error.stderr.trim().split('\n')
  const entering = 'another network namespace can not be entered (CAP_SYS_ADMIN)'
  return /reassociate to namespace/.test(line) ? `${entering}: ${line}` : line
}

/**
 * Whether a network namespace may have a connected UDP socket with a peer at one of these ports:
 * asking so costs a fifteenth of the processes that ask for more.
 */
export const mayHavePeersAt = async (
  ports: ReadonlySet<number>,
  { id, processes: [folder] }: NetworkNamespace,
): Promise<boolean> => {
  if (folder === undefined) return true
  const hasPeers = await sees(ports, folder)
  // The PID may be another process's by now.
  const now = await stat(join(folder, 'ns/net')).then(idOf, () => '')
  return hasPeers || now !== id
}

/** The same of where a process is; its tables (/proc/PID/net, proc_net(5)) are for everybody. */
const sees = async (ports: ReadonlySet<number>, folder: string): Promise<boolean> => {
  const hex = Array.from(ports, port => port.toString(16).toUpperCase().padStart(4, '0'))
  // The peer's port, and the state: TCP_ESTABLISHED.
  const line = new RegExp(`:(?:${hex.join('|')}) 01 `)
  try {
    const paths = ['udp', 'udp6'].map(name => join(folder, 'net', name))
    const tables = await Promise.all(paths.map(readIfThere))
    // Without IPv6 there is no udp6.
    return tables.some(table => line.test(table ?? ''))
  } catch {
    return true
  }
}

/** Runs ss(8) in one network namespace. */
type RunSs = (args: readonly string[]) => Promise<string>

/** A socket of UDP that has a peer. */
interface ConnectedUdp {
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
  let reason: string | undefined
  for (const some of lots(sockets)) {
    const each = some.map(({ local, peer }) => `( src ${local} and dst ${peer} )`)
    const output = await runSs(['-K', ...connected, each.join(' or ')])
    // It prints those that it ended. Refused (EPERM) it goes on with /proc/net/udp, and ends none.
    const isRefused = output.split('\n').some(line => line !== '' && !hasCookie(line))
    if (isRefused) reason = 'ss -K: not permitted (CAP_NET_ADMIN)'
  }
  return reason
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

/** By VIP, the endpoints at which its clients may stay; both as in the table `reverse`. */
type ServedUdp = ReadonlyMap<string, ReadonlySet<string>>

/** What clients are led by. */
interface Led {
  readonly servicePorts: readonly ServicePort[]
  readonly nodeAddresses: readonly string[]
}

/**
 * All VIPs of UDP by which clients are led. Pure. Whoever was led by another one, or to another
 * endpoint, has no business there any more.
 */
export const servedUdp = ({ servicePorts, nodeAddresses }: Led): ServedUdp => {
  const served = new Map<string, ReadonlySet<string>>()
  const nodePorts = new Map<string, ReadonlySet<string>>()
  for (const one of servicePorts) {
    if (one.protocol !== 'UDP') continue
    const keepers = flowKeepers(one.endpoints)
    const stay = new Set(
      keepers.map(({ address, port }) => addressOf(address, port, 'UDP')),
    )
    for (const vip of one.vips.filter(each => !isGuarded(each, one)))
      if (vip.kind !== 'NodePort')
        served.set(addressOf(vip.address, vip.port, 'UDP'), stay)
      else
        for (const each of nodeAddresses.filter(node => familyOf(node) === one.family))
          nodePorts.set(addressOf(each, vip.port, 'UDP'), stay)
  }
  // VIPs on addresses of the node go before node ports.
  return new Map([...nodePorts, ...served])
}

/**
 * Whether anybody may be where nobody is to stay. Scaling up is not to cost a look at all sockets.
 * What was led before is not known where there is nothing.
 */
export const losesUdp = (before: Led, after: Led): boolean => {
  const lost = before.nodeAddresses.some(each => !after.nodeAddresses.includes(each))
  if (lost || before.servicePorts.length === 0) return true
  const changed = listDiff(before.servicePorts, after.servicePorts)
  const now = servedUdp({ ...after, servicePorts: changed.after })
  const was = servedUdp({ ...before, servicePorts: changed.before })
  return [...was].some(([vip, stay]) => {
    const stays = now.get(vip)
    return stays === undefined || [...stay].some(each => !stays.has(each))
  })
}
