import { forEachAtOnce } from '../../util/at-once.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { readAddressOf } from './addresses.ts'
import { connectedTo, type ConnectedUdp, destroy, type RunSs } from './connected-udp.ts'
import {
  holdNamespace,
  type NamespaceFolders,
  type NetworkNamespace,
  networkNamespaces,
} from './network-namespaces.ts'
import { mayHavePeersAt, sees } from './quick-look.ts'
import type { ServedUdp } from './served-udp.ts'
import { address, socketKey } from './tables.ts'

export interface StaleUdpDeps {
  readonly run: RunTool
  /** Elements of the table `reverse`, bytes as latin1. */
  readonly reverse: () => Iterable<readonly [key: string, value: string]>
  /** Where the host's network namespaces are found. */
  readonly folders?: NamespaceFolders
}

export interface StaleUdp {
  /**
   * Ends connected sockets of UDP that were led to an endpoint that is none of their VIP's now, or by
   * a VIP that is gone: no hook sees what they send, so they would stay there for ever (cilium#12859).
   * Call it when the tables are written, with all VIPs. Never rejects; gives what could not be done.
   */
  readonly end: (served: ServedUdp) => Promise<readonly string[]>
}

/** By endpoint, as in `reverse`, the cookies of sockets that were led there and should not stay. */
type Stale = ReadonlyMap<string, ReadonlySet<string>>

/** Network namespaces in which a tool runs at once: it takes some milliseconds of a core. */
const atOnce = 4
const timeoutMs = 10_000

export const staleUdp = ({ run, reverse, folders }: StaleUdpDeps): StaleUdp => ({
  end: async served => {
    const problems = new Map<string, number>()
    const say = (problem: string): void =>
      void problems.set(problem, (problems.get(problem) ?? 0) + 1)
    try {
      const stale = await findStale(served, reverse())
      if (stale.size === 0) return []
      const { namespaces, hidden } = await networkNamespaces(folders)
      const ports = new Set(Array.from(stale.keys(), each => readAddressOf(each).port))
      await forEachAtOnce(atOnce, namespaces, async one => {
        try {
          if (await mayHavePeersAt(ports, one))
            await inNamespace(run, one, runSs => endAll(runSs, stale, say))
        } catch (error) {
          say(wordsOf(error))
        }
      })
      await forEachAtOnce(atOnce, hidden, async folder => {
        if (await sees(ports, folder)) say(unseen)
      })
    } catch (error) {
      say(wordsOf(error))
    }
    return Array.from(problems, ([problem, times]) => inWords(problem, times))
  },
})

const inWords = (problem: string, times: number): string =>
  `UDP sockets may stay connected to endpoints that are gone: ${problem}${
    times > 1 ? ` (${times} times)` : ''
  }`

const findStale = async (
  served: ServedUdp,
  reverse: ReturnType<StaleUdpDeps['reverse']>,
): Promise<Stale> => {
  const stale = new Map<string, Set<string>>()
  await forEachYielding(reverse, ([key, vip]) => {
    const endpoint = key.slice(socketKey.address, socketKey.address + address.size)
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
  say: (problem: string) => void,
): Promise<void> => {
  const endpoints = Array.from(stale.keys(), readAddressOf)
  const isStale = ({ endpoint, cookie }: ConnectedUdp): boolean =>
    stale.get(endpoint)?.has(cookie) === true
  let left = Number.POSITIVE_INFINITY
  let why: string | undefined
  for (;;) {
    const found = await connectedTo(runSs, endpoints)
    // Of sockets with the same ends (SO_REUSEPORT) ss would end all.
    const staying = new Set(found.filter(one => !isStale(one)).map(({ ends }) => ends))
    const doomed = found.filter(isStale)
    const alone = doomed.filter(({ ends }) => !staying.has(ends))
    if (alone.length === 0 || alone.length >= left) {
      if (alone.length > 0) say(why ?? noDestroy)
      if (alone.length < doomed.length) say(twins)
      return
    }
    left = alone.length
    why = await destroy(runSs, alone)
  }
}

const unseen = 'where a process is can not be seen (CAP_SYS_PTRACE)'
const noDestroy = 'ss -K ends none of them (the kernel needs CONFIG_INET_DIAG_DESTROY)'
const twins = 'one has both ends in common with a socket that is to stay (SO_REUSEPORT)'

/** The same for all network namespaces, as far as it is the same. */
const wordsOf = (error: unknown): string => {
  if (!(error instanceof ToolError) || error.stderr === '')
    return (error as Error).message
  if (/failed to execute \S+: No such file/.test(error.stderr))
    return 'ss: not found; install it (Debian package iproute2)'
  const [line = ''] = error.stderr.trim().split('\n')
  const entering = 'another network namespace can not be entered (CAP_SYS_ADMIN)'
  return /reassociate to namespace/.test(line) ? `${entering}: ${line}` : line
}
