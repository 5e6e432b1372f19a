import { isUnsupported, type RunTool, ToolError } from '../run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { tableText } from './restore-text.ts'

export type BackendMode = 'nft' | 'legacy'

/** One of iptables' two ways to the kernel, for one family. */
export interface Backend {
  readonly mode: BackendMode
  /** `iptables 1.8.9 (nf_tables)`. */
  readonly detail: string
  /** Feeds `iptables-restore --noflush`; gives what it printed. */
  restore(input: string, options?: RestoreOptions): Promise<string>
  /** Of no table by name: all that are there. Naming one makes it where it was not (legacy). */
  save(
    table: string | undefined,
    options?: Pick<RestoreOptions, 'timeoutMs'>,
  ): Promise<string>
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
    const backend = await backendOf(run, tool, command)
    if (backend instanceof ToolError) first ??= backend
    else if (found.every(({ mode }) => mode !== backend.mode)) found.push(backend)
  }
  if (found.length === 0 && first !== undefined) throw first
  return found
}

const backendOf = async (
  run: RunTool,
  tool: string,
  command: string,
): Promise<Backend | ToolError> => {
  try {
    const text = await run(`${command}-restore`, ['--version'])
    // Before 1.8 there was one, without a name.
    const mode = text.includes('nf_tables') ? 'nft' : 'legacy'
    const version = /v(\d[\w.]*)/.exec(text)?.[1] ?? 'of unknown version'
    const kind = mode === 'nft' ? 'nf_tables' : 'legacy'
    return makeBackend(run, command, { mode, detail: `${tool} ${version} (${kind})` })
  } catch (error) {
    if (error instanceof ToolError) return error
    throw error
  }
}

const makeBackend = (
  run: RunTool,
  command: string,
  what: Pick<Backend, 'mode' | 'detail'>,
): Backend => ({
  ...what,
  restore: (input, { counters = false, ...options } = {}) => {
    const args = ['--noflush', ...(counters ? ['--counters'] : []), '-w', lockSeconds]
    return run(`${command}-restore`, args, { ...options, input })
  },
  save: (table, options) =>
    run(`${command}-save`, table === undefined ? [] : ['-t', table], options),
})

/**
 * Whether the kernel may have rules of this back end. To ask iptables-legacy for a
 * table makes it, so that it is asked only where there is one.
 */
export const mayHaveRules = async (
  run: RunTool,
  { mode }: Backend,
  family: IpFamily,
): Promise<boolean> => {
  if (mode === 'nft') return true
  const file = family === 'IPv4' ? 'ip_tables_names' : 'ip6_tables_names'
  try {
    return (await run('cat', [`/proc/net/${file}`])) !== ''
  } catch (error) {
    if (error instanceof ToolError && error.failure !== 'not permitted') return false
    throw error
  }
}

/** One table as `iptables-save` prints it; '' from a kernel that knows no such table. */
export const saveIfThere = async (
  backend: Backend,
  table: string,
  options?: Pick<RestoreOptions, 'timeoutMs'>,
): Promise<string> => {
  try {
    return await backend.save(table, options)
  } catch (error) {
    if (isUnsupported(error)) return ''
    throw error
  }
}

/**
 * What `iptables -S` prints of some chains of one table, by one process that reads no
 * other. A chain is its name, or `NAME NUMBER` for one rule of it. Rejects with ToolError,
 * also when one of them is not there.
 */
export const showChains = async (
  backend: Pick<Backend, 'restore'>,
  table: string,
  chains: readonly string[],
): Promise<string> => {
  const shows = chains.map(chain => `-S ${chain}`)
  return backend.restore(await tableText(table, [], shows))
}

/** Whether MASQUERADE takes `--random-fully`: iptables from 1.6.2 on. */
export const randomFully = ({ detail }: Pick<Backend, 'detail'>): boolean => {
  const [major = 0, minor = 0, patch = 0] =
    / (\d+)\.(\d+)(?:\.(\d+))?/
      .exec(detail)
      ?.slice(1)
      .map(part => Number(part ?? 0)) ?? []
  return major * 1e6 + minor * 1e3 + patch >= 1_006_002
}
