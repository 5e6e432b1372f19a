import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { kill } from '../process/signals.ts'
import { processTree } from '../process/usage.ts'
import type { Endpoint } from '../services.ts'
import type { Place } from '../topology/topology.ts'

const folder = '/usr/lib/postgresql'

/** Where the programs of Debian's newest PostgreSQL are; '' where it isn't installed. */
export const postgresBin = (): string => {
  if (!existsSync(folder)) return ''
  const [newest] = readdirSync(folder).toSorted((a, b) => Number(b) - Number(a))
  const bin = `${folder}/${newest}/bin`
  return existsSync(`${bin}/initdb`) ? bin : ''
}

/** Why no PostgreSQL can be started here; '' when it can. */
export const postgresProblem = (): string =>
  postgresBin() === '' ? 'PostgreSQL is not installed (Debian package postgresql)' : ''

/** Has no files that a server could harm. */
const nobody = 65_534

/** How a server is started that refuses to run as root. */
interface ServerUser {
  /** Goes before its command line. */
  readonly enter: readonly string[]
  /** Whose its files have to be; undefined for those of this process. */
  readonly owner?: number
}

/**
 * As root another user; in a sandbox made without root, where there is only one, that one by
 * another name. Its shared memory is of a namespace of its own, and goes with it.
 */
const serverUser = (): ServerUser => {
  if (process.getuid?.() !== 0) return { enter: [] }
  const ids = String(nobody)
  return hasOthers()
    ? {
        enter: [
          'unshare',
          '--ipc',
          'setpriv',
          '--reuid',
          ids,
          '--regid',
          ids,
          '--clear-groups',
        ],
        owner: nobody,
      }
    : { enter: ['unshare', '--ipc', '--user', '--map-user', ids, '--map-group', ids] }
}

/** Whether this user namespace has more users than one (user_namespaces(7)). */
const hasOthers = (): boolean =>
  readFileSync('/proc/self/uid_map', 'utf8')
    .split('\n')
    .some(line => Number(line.trim().split(/\s+/)[2]) > nobody)

const run = promisify(execFile)

/** On a machine that is busy. */
const startsWithinMs = 30_000
const endsWithinMs = 5000
const keptLog = 4096

/**
 * Real PostgreSQL servers that let everyone in, one at each address. Each tells its number,
 * from 1, as its `cluster_name` (`show cluster_name`). Rejects with their last words when
 * they don't come to serve.
 * @param workDir - a directory of them is made under this, and removed by `stop`
 */
export const startPostgres = async (
  place: Pick<Place, 'enter'>,
  at: readonly Endpoint[],
  workDir: string,
) => {
  const directory = await mkdtemp(join(workDir, 'pg-'))
  const { owner } = serverUser()
  if (owner !== undefined) {
    await chown(directory, owner, owner)
    // The way there, for another user than that of this process.
    await chmod(workDir, 0o711)
  }
  const servers = at.map(
    (endpoint, index) => new PostgresServer(place, endpoint, directory, index + 1),
  )
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map(server => server.stop()))
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  }
  try {
    await makeData(
      directory,
      servers.map(({ data }) => data),
    )
    await Promise.all(servers.map(server => server.start()))
    return { servers, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** One is made, the others are copies: that is a tenth of the work. */
const makeData = async (directory: string, places: readonly string[]): Promise<void> => {
  const [first = '', ...others] = places
  const asUser = async (...argv: readonly string[]): Promise<void> => {
    const [command = '', ...args] = [...serverUser().enter, ...argv]
    await run(command, args, { cwd: directory })
  }
  const options = ['-A', 'trust', '-U', 'postgres', '--no-sync', '--locale', 'C']
  await asUser(`${postgresBin()}/initdb`, '-D', first, ...options)
  for (const other of others) await asUser('cp', '-a', first, other)
}

export class PostgresServer {
  readonly data: string
  readonly #place: Pick<Place, 'enter'>
  readonly #at: Endpoint
  readonly #name: number
  readonly #directory: string
  #child: ChildProcess | undefined
  #stopped: readonly number[] = []
  #log = ''

  constructor(
    place: Pick<Place, 'enter'>,
    at: Endpoint,
    directory: string,
    name: number,
  ) {
    this.#place = place
    this.#at = at
    this.#name = name
    this.#directory = directory
    this.data = join(directory, `data-${name}`)
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    const argv = [...this.#place.enter, ...serverUser().enter, ...this.#argv()]
    const [command = '', ...args] = argv
    const child = spawn(command, args, {
      cwd: this.#directory,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child = child
    this.#log = ''
    child.on('error', error => this.#keep(error.message))
    child.stderr.on('data', (text: Buffer) => this.#keep(text.toString()))
    const end = performance.now() + startsWithinMs
    while (!this.#log.includes('ready to accept connections')) {
      if (child.exitCode !== null || child.pid === undefined || performance.now() > end)
        throw new Error(`PostgreSQL did not start: ${this.#log.trim().slice(-500)}`)
      await sleep(20)
    }
  }

  /** Stops all of its processes, as if the machine stood still: connections are accepted. */
  freeze(): void {
    this.#stopped = this.#pids()
    for (const pid of this.#stopped) signal(pid, 'SIGSTOP')
  }

  thaw(): void {
    for (const pid of this.#stopped) signal(pid, 'SIGCONT')
    this.#stopped = []
  }

  /** Ends all of its processes at once. Resolves when they are gone. */
  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined || hasEnded(child)) return
    const gone = once(child, 'exit')
    for (const pid of this.#pids()) kill(pid)
    await gone
  }

  async stop(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.pid === undefined || hasEnded(child)) return
    this.thaw()
    const timer = setTimeout(() => void this.kill(), endsWithinMs)
    const gone = once(child, 'exit')
    // Its data go, too.
    child.kill('SIGQUIT')
    await gone
    clearTimeout(timer)
  }

  #pids(): readonly number[] {
    const pid = this.#child?.pid
    return pid === undefined ? [] : processTree(pid)
  }

  #argv(): readonly string[] {
    const settings = [
      'fsync=off',
      'max_connections=200',
      'shared_buffers=16MB',
      `cluster_name=server-${this.#name}`,
      `unix_socket_directories=`,
    ]
    return [
      `${postgresBin()}/postgres`,
      '-D',
      this.data,
      '-h',
      this.#at.address,
      '-p',
      String(this.#at.port),
      ...settings.flatMap(setting => ['-c', setting]),
    ]
  }

  #keep(text: string): void {
    this.#log = (this.#log + text).slice(-keptLog)
  }
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null

const signal = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended by itself: a session that is over.
  }
}
