import { type ChildProcess, spawn } from 'node:child_process'
import { Agent, get } from 'node:http'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { nodeObject } from '../../test/support/api-server/builders.ts'
import type { Access, Command, Requests } from '../../test/support/api-server/commands.ts'
import type { KubeObject } from '../../test/support/api-server/kube-object.ts'
import { freeTcpPort } from '../../test/support/ports.ts'
import { loopbackUsher } from '../../test/support/usher-program.ts'
import { startChild, stopProcess } from '../process/child.ts'
import { processTree, readUsage, type Usage } from '../process/usage.ts'
import type { ControlOptions } from './options.ts'
import type { Say } from './record.ts'

/** An API server with many Services, and Usher before it. */
export interface ControlPlane {
  readonly api: ApiServer
  readonly usher: UsherProcess
  /** `host:port` of Usher's own servers. */
  readonly healthz: string
  readonly metrics: string
}

/** How what was started is ended, in the order of starting. */
export type Closers = (() => unknown)[]

/** Does it, and ends what was started for it in any case. */
export const closing = async <T>(work: (closers: Closers) => Promise<T>): Promise<T> => {
  const closers: Closers = []
  try {
    return await work(closers)
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

/** @param prepare - what is to be in the API server before Usher starts */
export const openControlPlane = async (
  options: ControlOptions,
  host: string,
  say: Say,
  closers: Closers,
  prepare?: (api: ApiServer) => Promise<void>,
): Promise<ControlPlane> => {
  say('filling the API server')
  const api = await startApiServer(options)
  closers.push(() => api.stop())
  await api.apply(nodeObject('node-1'))
  await prepare?.(api)
  const healthz = `${host}:${await freeTcpPort(host)}`
  const metrics = `${host}:${await freeTcpPort(host)}`
  say('starting Usher')
  const usher = startUsher([
    `--kubeconfig=${api.access.kubeconfig}`,
    '--hostname-override=node-1',
    `--bind-address=${host}`,
    `--healthz-bind-address=${healthz}`,
    `--metrics-bind-address=${metrics}`,
    '--drain-timeout=0',
  ])
  closers.push(() => usher.stop())
  return { api, usher, healthz, metrics }
}

/** The API server of the tests, in a process of its own. */
export interface ApiServer {
  readonly pid: number
  readonly access: Access
  /** Gives the Unix time (ms, with fractions) just before the event was sent. */
  apply(object: KubeObject): Promise<number>
  startChurn(perSecond: number): Promise<void>
  /** Gives the times of all changes. */
  stopChurn(): Promise<readonly number[]>
  requests(): Promise<Requests>
  stop(): Promise<void>
}

const answerWithinMs = 60_000

/** Starts it and fills it. */
const startApiServer = async (options: ControlOptions): Promise<ApiServer> => {
  const { services, endpointsPerSlice, user, streamingLists } = options
  const child = startChild(
    new URL('../../test/support/api-server/main.ts', import.meta.url),
  )
  const ask = (command: Command) => child.ask(command, answerWithinMs)
  const behaviour = { streamingLists: streamingLists ? 'on' : 'refused' } as const
  await ask({ do: 'behave', behaviour })
  await ask({ do: 'seed', services, endpointsPerSlice })
  const access = (await ask({ do: 'access', user })) as Access
  return {
    pid: child.pid,
    access,
    apply: async object => (await ask({ do: 'apply', object })) as number,
    startChurn: async perSecond => void (await ask({ do: 'start-churn', perSecond })),
    stopChurn: async () => (await ask({ do: 'stop-churn' })) as readonly number[],
    requests: async () => (await ask({ do: 'requests' })) as Requests,
    stop: () => child.stop(),
  }
}

/** A sync that came into effect. Times are Unix milliseconds. */
export interface Applied {
  readonly at: number
  /** When the changes in it were made. */
  readonly triggerTimes: readonly number[]
}

/** The longest time for which the event loop stood still after `from`, until the next. */
export interface LoopBlock {
  /** Unix milliseconds. */
  readonly from: number
  readonly blockedMs: number
}

/** Usher as a process, with what it tells about itself. */
export interface UsherProcess {
  readonly startedAt: number
  /** Unix milliseconds of the log record `serving`. Rejects when Usher ends before. */
  readonly serving: Promise<number>
  readonly applied: readonly Applied[]
  readonly blocks: readonly LoopBlock[]
  /** Records of warnings and errors. */
  readonly complaints: readonly string[]
  /** Both its processes, as far as they run now. */
  pids(): readonly number[]
  usage(): Usage
  /** The most memory that both had together, looked at every 50 ms. */
  peakRssBytes(): number
  stop(): Promise<void>
}

const pollEveryMs = 50

const startUsher = (flags: readonly string[]): UsherProcess => {
  const startedAt = unixNow()
  const argv = [
    '--import',
    new URL('./observe.mjs', import.meta.url).href,
    loopbackUsher,
    ...'run --proxy-mode userspace --capture none'.split(' '),
    ...flags,
  ]
  const child = spawn(process.execPath, argv, {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`could not start ${loopbackUsher}`)
  const applied: Applied[] = []
  const blocks: LoopBlock[] = []
  const complaints: string[] = []
  readLines(child.stdio[3] as Readable, text => {
    const reported = JSON.parse(text) as Reported
    if (reported.kind === 'applied') applied.push(reported)
    else blocks.push(reported)
  })
  const serving = servingOf(child, complaints)
  // It may fail while there is no await on it.
  serving.catch(() => undefined)
  const pids = (): readonly number[] => processTree(pid)
  const usage = (): Usage => readUsage(pids()) ?? { cpuSeconds: 0, rssBytes: 0 }
  let peakRss = 0
  const polling = setInterval(() => {
    peakRss = Math.max(peakRss, usage().rssBytes)
  }, pollEveryMs)
  return {
    startedAt,
    serving,
    applied,
    blocks,
    complaints,
    pids,
    usage,
    peakRssBytes: () => peakRss,
    stop: async () => {
      clearInterval(polling)
      await stopProcess(child)
    },
  }
}

/** What observe.mjs tells. */
type Reported =
  ({ readonly kind: 'applied' } & Applied) | ({ readonly kind: 'loop' } & LoopBlock)

const servingOf = (child: ChildProcess, complaints: string[]): Promise<number> =>
  new Promise((resolve, reject) => {
    readLines(child.stdout as Readable, text => {
      const { level, msg } = JSON.parse(text) as { readonly level: string; msg: string }
      if (msg === 'serving') resolve(unixNow())
      if (level === 'warn' || level === 'error') complaints.push(text)
    })
    child.once('exit', code =>
      reject(new Error(`usher ended (${code}): ${complaints.join('\n')}`)),
    )
  })

const readLines = (stream: Readable, take: (line: string) => void): void => {
  createInterface(stream).on('line', take)
}

/** Unix time in milliseconds, with fractions. */
export const unixNow = (): number => performance.timeOrigin + performance.now()

const askEveryMs = 5

/**
 * Asks for /livez again and again: how long a tiny request takes is how long connections
 * wait for the event loop, seen from outside.
 */
export class Livez {
  readonly #url: string
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #end = new AbortController()
  #tookMs: number[] = []
  #firstAt: number | undefined

  /** @param address - `host:port`; it need not listen yet */
  constructor(address: string) {
    this.#url = `http://${address}/livez`
    void this.#askOn()
  }

  /** Unix milliseconds of the first answer. */
  get firstAt(): number | undefined {
    return this.#firstAt
  }

  /** Milliseconds of each answer since the last call. */
  take(): readonly number[] {
    return this.#tookMs.splice(0)
  }

  close(): void {
    this.#end.abort()
    this.#agent.destroy()
  }

  async #askOn(): Promise<void> {
    while (!this.#end.signal.aborted) {
      const startedAt = performance.now()
      if (await this.#answers()) {
        this.#firstAt ??= unixNow()
        this.#tookMs.push(performance.now() - startedAt)
      }
      await sleep(askEveryMs)
    }
  }

  #answers(): Promise<boolean> {
    return new Promise(resolve => {
      get(this.#url, { agent: this.#agent }, response => {
        response.resume().once('end', () => resolve(true))
      }).once('error', () => resolve(false))
    })
  }
}
