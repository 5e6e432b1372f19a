import { type RunTool, ToolError } from '../run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import { Sleeper } from '../keeper/sleeper.ts'
import type { SpawnMonitor } from '../nft/monitor.ts'
import type { IpFamily } from '../../util/ip.ts'

export type BackendMode = 'nft' | 'legacy'

/** One of iptables' two ways to the kernel, for one family. */
export interface Backend {
  readonly mode: BackendMode
  readonly family: IpFamily
  /** `iptables 1.8.9 (nf_tables)`. */
  readonly detail: string
  /** Feeds `iptables-restore --noflush`; gives what it printed. */
  restore(input: string, options?: RestoreOptions): Promise<string>
  /** Of no table by name: all that are there. Naming one makes it where it was not (legacy). */
  save(
    table: string | undefined,
    options?: Pick<RestoreOptions, 'timeoutMs'>,
  ): Promise<string>
  /** For nft, which can read what iptables-nft can't. */
  readonly run: RunTool
}

export interface RestoreOptions {
  /** `[packets:bytes]` in the input count. */
  readonly counters?: boolean
  /** Milliseconds; by default 30 s. */
  readonly timeoutMs?: number
}

/** Seconds for which another program may hold the lock (iptables(8), /run/xtables.lock). */
const lockSeconds = '5'

const tools: Readonly<Record<IpFamily, string>> = {
  IPv4: 'iptables',
  IPv6: 'ip6tables',
}

/**
 * All that are installed, the system's own choice first. Rejects with its ToolError when
 * there is none.
 */
export const installedBackends = async (
  run: RunTool,
  family: IpFamily,
): Promise<readonly Backend[]> => {
  const tool = tools[family]
  const found: Backend[] = []
  let first: ToolError | undefined
  for (const command of [tool, `${tool}-nft`, `${tool}-legacy`]) {
    const backend = await backendOf(run, family, command)
    if (backend instanceof ToolError) first ??= backend
    else if (found.every(({ mode }) => mode !== backend.mode)) found.push(backend)
  }
  if (found.length === 0 && first !== undefined) throw first
  return found
}

const backendOf = async (
  run: RunTool,
  family: IpFamily,
  command: string,
): Promise<Backend | ToolError> => {
  const tool = tools[family]
  try {
    const text = await run(`${command}-restore`, ['--version'])
    // Before 1.8 there was one, without a name.
    const mode = text.includes('nf_tables') ? 'nft' : 'legacy'
    const version = /v(\d[\w.]*)/.exec(text)?.[1] ?? 'of unknown version'
    const kind = mode === 'nft' ? 'nf_tables' : 'legacy'
    const detail = `${tool} ${version} (${kind})`
    return makeBackend(run, command, { mode, family, detail })
  } catch (error) {
    // One that does not answer in time is not known to be missing.
    if (error instanceof ToolError && error.failure !== 'timeout') return error
    throw error
  }
}

const makeBackend = (
  run: RunTool,
  command: string,
  what: Pick<Backend, 'mode' | 'family' | 'detail'>,
): Backend => ({
  ...what,
  restore: (input, { counters = false, ...options } = {}) => {
    const args = ['--noflush', ...(counters ? ['--counters'] : []), '-w', lockSeconds]
    return run(`${command}-restore`, args, { ...options, input })
  },
  save: (table, options) =>
    run(`${command}-save`, table === undefined ? [] : ['-t', table], options),
  run,
})

/**
 * Whether the kernel has a table of this back end. To ask iptables-legacy for one makes it.
 * Rejects where it is not permitted to look.
 */
export const hasTable = async (
  { mode, run, family }: Backend,
  table: string,
): Promise<boolean> => {
  if (mode === 'nft') return true
  const file = family === 'IPv4' ? 'ip_tables_names' : 'ip6_tables_names'
  try {
    const names = await run('cat', [`/proc/net/${file}`])
    return names.split('\n').includes(table)
  } catch (error) {
    if (error instanceof ToolError && error.failure !== 'not permitted') return false
    throw error
  }
}

/**
 * For a Canary: what is notified of changes by iptables-nft. Unlike `nft monitor` it keeps no rules: 2 MB
 * with any number. The kernel notifies nobody of iptables-legacy's.
 */
export const notifiedByNft = (clock: Clock, spawn: SpawnMonitor | undefined) => ({
  sleeper: spawn && new Sleeper({ clock, spawn, line: ['xtables-monitor', '--event'] }),
  isNotified: ({ backend }: { readonly backend: Backend }) => backend.mode === 'nft',
})

/** Whether MASQUERADE takes `--random-fully`: iptables from 1.6.2 on. */
export const randomFully = ({ detail }: Pick<Backend, 'detail'>): boolean => {
  const [major = 0, minor = 0, patch = 0] =
    / (\d+)\.(\d+)(?:\.(\d+))?/
      .exec(detail)
      ?.slice(1)
      .map(part => Number(part ?? 0)) ?? []
  return major * 1e6 + minor * 1e3 + patch >= 1_006_002
}

/**
 * Says nothing of what the kernel has, and may be gone the next time: another program has held
 * the lock for all the time that was waited, or has changed the same table meanwhile (EAGAIN
 * of the legacy back end).
 */
export const isBusy = ({ message, stderr }: ToolError): boolean =>
  /can't lock|xtables lock|resource temporarily unavailable/i.test(`${message} ${stderr}`)

/** Whether a tool failed because of what it was asked, and would do so again. */
export const isVerdict = (error: unknown): error is ToolError =>
  error instanceof ToolError && error.failure === 'failed' && !isBusy(error)

/** Whether it was done; false where a tool refused it. Rejects with ToolError when that is not known. */
export const isTaken = async (work: () => Promise<unknown>): Promise<boolean> => {
  try {
    await work()
    return true
  } catch (error) {
    if (isVerdict(error)) return false
    throw error
  }
}
