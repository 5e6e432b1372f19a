import { execFile } from 'node:child_process'
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { kill } from '../process/signals.ts'
import type { Endpoint } from '../services.ts'
import { ProxyProcess } from '../targets/proxy.ts'
import type { Place } from '../topology/topology.ts'
import { postgresBin, serverUser } from './postgres-program.ts'

const run = promisify(execFile)

/** On a machine that is busy. */
const startsWithinMs = 30_000
const endsWithinMs = 5000

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
  readonly #argv: readonly string[]
  readonly #directory: string
  #process: ProxyProcess | undefined
  #stopped: readonly number[] = []

  constructor(
    place: Pick<Place, 'enter'>,
    { address, port }: Endpoint,
    directory: string,
    name: number,
  ) {
    this.#place = place
    this.#directory = directory
    this.data = join(directory, `data-${name}`)
    const settings = [
      'fsync=off',
      'max_connections=200',
      'shared_buffers=16MB',
      `cluster_name=server-${name}`,
      `unix_socket_directories=`,
    ]
    const listening = ['-D', this.data, '-h', address, '-p', String(port)]
    this.#argv = [
      ...serverUser().enter,
      `${postgresBin()}/postgres`,
      ...listening,
      ...settings.flatMap(setting => ['-c', setting]),
    ]
  }

  /** Resolves when it takes connections. */
  async start(): Promise<void> {
    const process = new ProxyProcess(this.#place, this.#argv, { cwd: this.#directory })
    this.#process = process
    const end = performance.now() + startsWithinMs
    while (!process.output.includes('ready to accept connections')) {
      if (process.ended.aborted || performance.now() > end)
        throw new Error(`PostgreSQL did not start: ${process.lastWords()}`)
      await sleep(20)
    }
  }

  /** Stops all of its processes, as if the machine stood still: connections are accepted. */
  freeze(): void {
    this.#stopped = this.#process?.pids() ?? []
    for (const pid of this.#stopped) signal(pid, 'SIGSTOP')
  }

  thaw(): void {
    for (const pid of this.#stopped) signal(pid, 'SIGCONT')
    this.#stopped = []
  }

  /** Ends all of its processes at once. Resolves when they are gone. */
  async kill(): Promise<void> {
    for (const pid of this.#process?.pids() ?? []) kill(pid)
    await this.#process?.stop()
  }

  async stop(): Promise<void> {
    this.thaw()
    // Its data go, too.
    this.#process?.signal('SIGQUIT')
    await this.#process?.stop(endsWithinMs)
  }
}

const signal = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended by itself: a session that is over.
  }
}
