import { type ChildProcess, spawn } from 'node:child_process'
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { toolEnv } from '../../src/kernel/run-tool.ts'
import { joinHostPort } from '../../src/util/ip.ts'
import { errorCode } from '../../src/util/usher-error.ts'
import { kill } from '../process/signals.ts'
import { processTree, runs } from '../process/usage.ts'
import type { BenchService, Endpoint } from '../services.ts'
import { awaitServing, freePorts } from '../topology/probe.ts'
import type { Lane, Place } from '../topology/topology.ts'
import type { Order, RunningTarget } from './target.ts'

/** A service, and where it is to be served. */
export type Placed = BenchService & { readonly listen: Endpoint }

/** A proxy that reads from a file which services it leads to. */
export interface FileProxy {
  readonly name: string
  /** It carries no UDP. */
  readonly onlyTcp?: true
  /** The file's name, and what is to stand in it. */
  readonly file: string
  readonly content: (services: readonly Placed[], directory: string) => string
  /** @param before - the process whose place it is to take; none for the first */
  readonly argv: (file: string, directory: string, before?: number) => readonly string[]
  /** What the report shows of that; all of it by default. */
  readonly command?: (file: string) => string
  readonly ordinary?: RegExp
  /** How endpoints change: the signal at which it reads the file again, or in another way. */
  readonly changes?:
    | NodeJS.Signals
    | ((services: readonly Placed[], directory: string) => RunningTarget['setEndpoints'])
  /** How it is replaced: by another one that is started, or by a signal at which it has new workers. */
  readonly replaced?: 'by another' | NodeJS.Signals
}

/** Starts such a proxy, with a port of the node for each service. Rejects as `startProxy` does. */
export const startByFile = async (
  order: Order,
  { name, onlyTcp, file, content, changes, replaced, ...proxy }: FileProxy,
): Promise<RunningTarget> => {
  const directory = await targetDirectory(order, name)
  const wanted = order.services.filter(({ protocol }) => !onlyTcp || protocol === 'TCP')
  const services = [...(await placedAt(order.lane, wanted))]
  const path = join(directory, file)
  const write = async (): Promise<string> => {
    const text = content(services, directory)
    // Renamed into place: half of it is never read.
    await writeFile(`${path}.new`, text)
    await rename(`${path}.new`, path)
    return text
  }
  const reload: Proxy['setEndpoints'] = async (service, endpoints, process) => {
    const index = services.findIndex(one => one.name === service)
    const known = services[index]
    if (known === undefined) throw new Error(`there is no service ${service}`)
    services[index] = { ...known, endpoints }
    await write()
    if (typeof changes === 'string') process.signal(changes)
  }
  const setEndpoints =
    typeof changes === 'function' ? changes(services, directory) : changes && reload
  return startProxy(order, {
    name,
    argv: proxy.argv(path, directory),
    config: shownPart(await write()),
    addresses: addressesOf(services),
    directory,
    ...(proxy.command && { command: proxy.command(path) }),
    ...(proxy.ordinary && { ordinary: proxy.ordinary }),
    ...(setEndpoints && { setEndpoints }),
    ...(order.isToBeReplaced &&
      replaced && {
        successor:
          replaced === 'by another'
            ? (before: number) => proxy.argv(path, directory, before)
            : replaced,
      }),
  })
}

/** With a free port of the node for each. */
export const placedAt = async (
  lane: Lane,
  services: readonly BenchService[],
): Promise<readonly Placed[]> => {
  const address = lane.nodeAddress
  const ports = await freePorts(lane, address, services.length)
  return services.map((service, index) => ({
    ...service,
    listen: { address, port: ports[index] ?? 0 },
  }))
}

export const addressesOf = (services: readonly Placed[]): ReadonlyMap<string, Endpoint> =>
  new Map(services.map(({ name, listen }) => [name, listen]))

export const hostPort = ({ address, port }: Endpoint): string =>
  joinHostPort(address, port)

/** A new directory for the files of one target; it removes it when it stops. */
export const targetDirectory = async (
  { workDir }: Pick<Order, 'workDir'>,
  target: string,
): Promise<string> => {
  await mkdir(workDir, { recursive: true })
  return mkdtemp(join(workDir, `${target}-`))
}

const mostShown = 8000

/** As much of a configuration as a report shows: that of 10 000 services is all alike. */
export const shownPart = (config: string): string => {
  if (config.length <= mostShown) return config
  const end = config.lastIndexOf('\n', mostShown) + 1
  const left = config.slice(end).split('\n').length
  return `${config.slice(0, end)}... and ${left} lines more, alike\n`
}

/** A proxy that is ready to be started. */
export interface Proxy {
  readonly name: string
  /** Its command line, to be run on its node. */
  readonly argv: readonly string[]
  /** What the report shows of that; all of it by default. */
  readonly command?: string
  /** What the report shows of its configuration. */
  readonly config: string
  /** Where clients dial which service. */
  readonly addresses: ReadonlyMap<string, Endpoint>
  /** Its files, removed when it has ended. */
  readonly directory: string
  /** Lines that it writes when all is well. */
  readonly ordinary?: RegExp
  /** Changes the endpoints of a service; `process` is for a signal to it. */
  readonly setEndpoints?: (
    service: string,
    endpoints: readonly Endpoint[],
    process: ProxyProcess,
  ) => Promise<void>
  /** The command line of what takes its place, or the signal at which it has new workers. */
  readonly successor?: NodeJS.Signals | ((before: number) => readonly string[])
}

/**
 * Starts a proxy on its node and waits until clients are served. Rejects with the reason
 * and the proxy's last words when they are not; nothing of it is left then.
 */
export const startProxy = async (order: Order, proxy: Proxy): Promise<RunningTarget> => {
  const first = new ProxyProcess(order.lane, proxy.argv, proxy)
  const line = new Succession(first, order, proxy)
  const stop = async (): Promise<void> => {
    await line.stop()
    await rm(proxy.directory, { recursive: true, force: true })
  }
  try {
    const why =
      (await servingProblem(order, proxy.addresses, first.ended)) ||
      (await strangersProblem(order, proxy.addresses, first))
    if (why !== '' && order.signal.aborted)
      throw new Error(`${proxy.name} is not waited for any more`)
    if (why !== '') throw new Error(`${proxy.name} ${why}: ${first.lastWords()}`)
  } catch (error) {
    await stop()
    throw error
  }
  const { setEndpoints, successor } = proxy
  return {
    addressOf: service => proxy.addresses.get(service),
    pids: () => line.current.pids(),
    command: proxy.command ?? proxy.argv.join(' '),
    config: proxy.config,
    complaint: () => line.current.complaint(),
    stop,
    ...(setEndpoints && {
      setEndpoints: (service, endpoints) =>
        setEndpoints(service, endpoints, line.current),
    }),
    ...(successor && { replace: () => line.replace(successor) }),
  }
}

/** Above what any program takes that is told to be gone after a second. */
const goneWithinMs = 20_000
const lookIfGoneMs = 5

/** The processes of a proxy, one in the place of the other. */
class Succession {
  readonly #all: ProxyProcess[]
  readonly #place: Pick<Place, 'enter'>
  readonly #proxy: Proxy

  constructor(first: ProxyProcess, { lane }: Order, proxy: Proxy) {
    this.current = first
    this.#all = [first]
    this.#place = lane
    this.#proxy = proxy
  }

  current: ProxyProcess

  /** Gives the milliseconds until nothing of the one before was left. */
  async replace(successor: NonNullable<Proxy['successor']>): Promise<number> {
    const startedAt = performance.now()
    if (this.current.ended.aborted) throw this.#fault('has ended')
    const [root = 0, ...others] = this.current.pids()
    if (typeof successor === 'string') this.current.signal(successor)
    else {
      this.current = new ProxyProcess(this.#place, successor(root), this.#proxy)
      this.#all.push(this.current)
    }
    await this.#gone(typeof successor === 'string' ? others : [root, ...others])
    return performance.now() - startedAt
  }

  async #gone(pids: readonly number[]): Promise<void> {
    const until = performance.now() + goneWithinMs
    for (;;) {
      if (this.current.ended.aborted) throw this.#fault('ended as it was to take over')
      if (!pids.some(runs)) return
      if (performance.now() > until)
        throw this.#fault(`could not replace what is there after ${goneWithinMs} ms`)
      await setTimeout(lookIfGoneMs)
    }
  }

  #fault(why: string): Error {
    const { current } = this
    return new Error(
      `${this.#proxy.name} ${why}: ${current.complaint() || current.lastWords()}`,
    )
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map(one => one.stop()))
  }
}

/** A target that has no process of ours. Rejects when clients are not served there. */
export const startNothing = async (
  name: string,
  order: Order,
  addresses: ReadonlyMap<string, Endpoint>,
): Promise<RunningTarget> => {
  const why = await servingProblem(order, addresses)
  if (why !== '') throw new Error(`${name} ${why}`)
  return {
    addressOf: service => addresses.get(service),
    pids: () => [],
    command: '',
    config: '',
    complaint: () => '',
    stop: async () => undefined,
  }
}

/**
 * Milliseconds. Thousands of Services take their time, and iptables most; what dies is not
 * waited for. An emulated machine takes half a minute for a single Service.
 */
const readyWithin = ({ services }: Order): number =>
  services.length > 500 ? 180_000 : 60_000

/** Why clients are not served by the services to wait for, of those that the target leads to. */
const servingProblem = (
  order: Order,
  addresses: ReadonlyMap<string, Endpoint>,
  ended?: AbortSignal,
): Promise<string> => {
  const { services, awaited, client, signal } = order
  const probed = services.flatMap(({ name, protocol }) => {
    const address = addresses.get(name)
    if (address === undefined || awaited?.includes(name) === false) return []
    return [{ name, protocol, ...address }]
  })
  return awaitServing(client, probed, {
    within: readyWithin(order),
    ended: AbortSignal.any(ended === undefined ? [signal] : [ended, signal]),
  })
}

/** Until it is looked again who has a port. */
const lookAgainMs = 50

/**
 * Why it is not this program that serves there: a stranger that has its port is found out when the
 * program ends for it, which on a busy machine is long after a client could connect.
 */
const strangersProblem = async (
  order: Order,
  addresses: ReadonlyMap<string, Endpoint>,
  process: ProxyProcess,
): Promise<string> => {
  const { services, signal } = order
  const tcp = services.find(one => one.protocol === 'TCP' && addresses.has(one.name))
  const { port } = addresses.get(tcp?.name ?? '') ?? {}
  if (port === undefined) return ''
  const until = performance.now() + readyWithin(order)
  while (await isAnothers(process.pids(), port)) {
    if (process.ended.aborted) return 'ended'
    if (signal.aborted || performance.now() > until)
      return `does not listen on port ${port}, which another program has`
    await setTimeout(lookAgainMs)
  }
  return process.ended.aborted ? 'ended' : ''
}

/**
 * Whether another program listens on the port where these run, and none of them does. False
 * where that can't be seen, and where rules of the kernel's lead clients.
 */
const isAnothers = async (pids: readonly number[], port: number): Promise<boolean> => {
  try {
    const tables = await Promise.all(
      ['tcp', 'tcp6'].map(name => readFile(`/proc/${pids[0]}/net/${name}`, 'latin1')),
    )
    const listening = tables
      .join('')
      .split('\n')
      .flatMap(line => {
        const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/)
        const isThere =
          state === '0A' && Number.parseInt(local.split(':')[1] ?? '', 16) === port
        return isThere ? [`socket:[${inode}]`] : []
      })
    if (listening.length === 0) return false
    const held = new Set((await Promise.all(pids.map(descriptorsOf))).flat())
    return !listening.some(socket => held.has(socket))
  } catch (error) {
    // One of them ends just now, of which its owner is yet to hear; others are another user's.
    return errorCode(error as NodeJS.ErrnoException) === 'ENOENT'
  }
}

const descriptorsOf = async (pid: number): Promise<readonly string[]> => {
  const folder = `/proc/${pid}/fd`
  const links = (await readdir(folder)).map(fd => readlink(join(folder, fd)))
  return (await Promise.allSettled(links)).flatMap(link =>
    link.status === 'fulfilled' ? [link.value] : [],
  )
}

const keptOutput = 4096
/** Rules of 10 000 Services take a while to remove. */
const endsWithinMs = 10_000

/** A program that serves until it is stopped, with the end of what it has written. */
export class ProxyProcess {
  /** Aborted once it has ended, or could not be started. */
  readonly ended: AbortSignal
  readonly #child: ChildProcess
  readonly #ordinary: RegExp
  #output = ''

  /**
   * @param ordinary - lines that it may write without being suspected of anything
   * @param cwd - where it runs, for one that can't be where this process is
   */
  constructor(
    place: Pick<Place, 'enter'>,
    argv: readonly string[],
    { ordinary = /^$/, cwd }: { readonly ordinary?: RegExp; readonly cwd?: string } = {},
  ) {
    this.#ordinary = ordinary
    const [command = '', ...args] = [...place.enter, ...argv]
    const ended = new AbortController()
    this.ended = ended.signal
    this.#child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: toolEnv(),
      ...(cwd !== undefined && { cwd }),
    })
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (text: Buffer) => this.#keep(text.toString()))
    this.#child.once('error', error => {
      this.#keep(error.message)
      ended.abort()
    })
    // Not `exit`: by then its last words may still be in the pipe.
    this.#child.once('close', () => ended.abort())
  }

  #keep(text: string): void {
    this.#output = (this.#output + text).slice(-keptOutput)
  }

  /** The end of what it has written. */
  get output(): string {
    return this.#output
  }

  /** It and all its descendants; none once it has ended. */
  pids(): readonly number[] {
    const { pid } = this.#child
    return pid === undefined || this.ended.aborted ? [] : processTree(pid)
  }

  /** The end of what it has written, in a few lines. */
  lastWords(): string {
    return this.#output.trim().split('\n').slice(-5).join('\n') || 'it said nothing'
  }

  /** That it ended, or its last line; '' when all is quiet. */
  complaint(): string {
    const how = this.#child.exitCode ?? this.#child.signalCode
    const lines = this.#output.trim().split('\n')
    const written = lines.findLast(line => !this.#ordinary.test(line)) ?? ''
    return [how === null ? '' : `ended (${how})`, written].filter(Boolean).join(': ')
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.ended.aborted) this.#child.kill(signal)
  }

  /** Asks it to end, and ends it with all its descendants when it doesn't within `ms`. */
  async stop(ms: number = endsWithinMs): Promise<void> {
    const family = this.pids()
    const patience = AbortSignal.any([this.ended, AbortSignal.timeout(ms)])
    this.signal('SIGTERM')
    await aborted(patience)
    for (const pid of this.ended.aborted ? [] : [...family, ...this.pids()]) kill(pid)
    await aborted(this.ended)
  }
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
