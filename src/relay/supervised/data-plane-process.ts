import { type ChildProcess, fork } from 'node:child_process'
import type { Clock, Timer } from '../../util/clock.ts'
import type { NodeClients } from '../relay.ts'
import type { Call, DataPlaneSelf, News, Order, Report, Setup } from './messages.ts'

/** The program of a data plane, and how Node is to start it. */
export interface DataPlaneProgram {
  readonly file: URL
  /** Node's own flags. */
  readonly execArgv: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** A program, with what it is told, that becomes Node; none by default. */
  readonly launcher?: readonly string[]
}

export interface DataPlaneDeps {
  readonly clock: Clock
  readonly program: DataPlaneProgram
  readonly setup: Setup
  /** Also what it said in its last moments. */
  readonly news: (news: News) => void
  /** Called once, before calls are rejected. */
  readonly ended: (ending: Ending) => void
  /** It was to be killed and that was refused, or has not ended of it: in what words. */
  readonly unkillable: (words: string) => void
}

/** How a data plane has ended. */
export interface Ending {
  /** `was killed by SIGSEGV`, `ended with code 1`, ... */
  readonly words: string
  /** What it said itself about why there can't be a relay. */
  readonly told: Extract<Report, { readonly kind: 'cannot-start' }> | undefined
  /** It did what no program may do, as native code can. */
  readonly crashed: boolean
  /** Milliseconds from its start. */
  readonly livedMs: number
}

/** What a call rejects with when the data plane did not live to answer it. */
export class DataPlaneGone extends Error {}

const pingEveryMs = 1000
/** Pings without an answer, until it is taken for dead. Starting may take longer. */
const mostUnanswered = 10
const mostUnansweredAtStart = 30
/** Milliseconds it has to leave in when it is asked to. */
const leaveMs = 1000
/** Milliseconds that the kernel may take to end a process, of which 100 000 sockets take one. */
const deadMs = 10_000
/** Milliseconds it may be there without its end of the channel. */
const lingerMs = 200

interface Waiting {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

/** One process of the data plane, from its start to its end. */
export class DataPlaneProcess {
  /** Resolves when it takes calls, or with undefined when it ended before. */
  readonly ready: Promise<DataPlaneSelf | undefined>
  readonly #ended: Promise<void>
  readonly #deps: DataPlaneDeps
  readonly #startedAt: number
  readonly #child: ChildProcess | undefined
  readonly #calls = new Map<number, Waiting>()
  #lastId = 0
  #unanswered = 0
  #timer: Timer | undefined
  #isReady = false
  #killedWhy = ''
  #told: Ending['told']
  #gone = false
  #sayReady: (self: DataPlaneSelf | undefined) => void = () => {}
  #sayEnded: () => void = () => {}

  constructor(deps: DataPlaneDeps) {
    this.#deps = deps
    this.#startedAt = deps.clock.now()
    this.ready = new Promise(resolve => (this.#sayReady = resolve))
    this.#ended = new Promise(resolve => (this.#sayEnded = resolve))
    try {
      this.#child = this.#start()
    } catch (error) {
      // Out of descriptors, for instance.
      this.#end(cannotStart(error))
    }
  }

  /** Whether it takes calls. */
  get isReady(): boolean {
    return this.#isReady && !this.#gone
  }

  /** Undefined when it could not be started. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** @throws DataPlaneGone, or what the relay rejected with. */
  call(call: Call): Promise<unknown> {
    if (this.#gone) return Promise.reject(new DataPlaneGone('the data plane is gone'))
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject })
      this.#send({ kind: 'call', id, call })
    })
  }

  setNodeClients(clients: NodeClients): void {
    this.#send({ kind: 'node-clients', clients })
  }

  /** Ends it in order, and after a second in any case. Resolves when it is gone. */
  async exit(): Promise<void> {
    const { clock } = this.#deps
    const timer = clock.setTimeout(() => this.kill('it did not leave'), leaveMs)
    this.#send({ kind: 'exit' })
    await this.#ended
    clock.clearTimeout(timer)
  }

  kill(why: string): void {
    if (this.#gone || this.#killedWhy !== '') return
    const { clock, unkillable } = this.#deps
    this.#killedWhy = why
    clock.clearTimeout(this.#timer)
    const words = `was killed (${why}) and has not ended for ${deadMs / 1000} s`
    this.#timer = clock.setTimeout(() => unkillable(words), deadMs)
    this.#child?.kill('SIGKILL')
  }

  #start(): ChildProcess {
    const { file, execArgv, env, launcher = [] } = this.#deps.program
    const [execPath = '', ...args] = [...launcher, process.execPath, ...execArgv]
    const child = fork(file, {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      execPath,
      execArgv: args,
      env,
    })
    child.on('message', report => this.#hear(report as Report))
    child.on('error', error => {
      // One that was never there has no exit.
      if (child.pid === undefined) this.#end(cannotStart(error))
      else if (this.#killedWhy !== '') this.#refused(error)
    })
    child.on('exit', (code, signal) => {
      const crashed = signal !== null && crashSignals.has(signal)
      this.#end(this.#wordsOf(code, signal), crashed)
    })
    child.on('disconnect', () => this.#disconnected())
    if (child.pid === undefined) return child
    this.#tell(child, { kind: 'setup', setup: this.#deps.setup })
    this.#watch()
    return child
  }

  /** By the kernel, as kill(2) of another user's process takes CAP_KILL; or by a filter. */
  #refused(error: Error): void {
    const { clock, unkillable } = this.#deps
    clock.clearTimeout(this.#timer)
    unkillable(`can't be killed, though ${this.#killedWhy}: ${error.message}`)
  }

  /** Most often it is about to be known how it has ended. */
  #disconnected(): void {
    if (this.#gone || this.#killedWhy !== '') return
    const { clock } = this.#deps
    clock.clearTimeout(this.#timer)
    const why = 'it could not be talked to any more'
    this.#timer = clock.setTimeout(() => this.kill(why), lingerMs)
  }

  #wordsOf(code: number | null, signal: NodeJS.Signals | null): string {
    const how = signal === null ? `ended with code ${code}` : `was killed by ${signal}`
    return this.#killedWhy === '' ? how : `was killed: ${this.#killedWhy}`
  }

  #hear(report: Report): void {
    switch (report.kind) {
      case 'ready':
        this.#isReady = true
        this.#unanswered = 0
        this.#sayReady(report.self)
        return
      case 'cannot-start':
        this.#told = report
        return
      case 'pong':
        this.#unanswered = 0
        return
      case 'news':
        this.#deps.news(this.#gone ? { ...report.news, ...nothingNow } : report.news)
        this.#send({ kind: 'news-taken' })
        return
      case 'done':
        this.#settle(report.id)?.resolve(report.result)
        return
      case 'failed':
        this.#settle(report.id)?.reject(report.error)
    }
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#calls.get(id)
    this.#calls.delete(id)
    return waiting
  }

  /** Counts pings, not time: while this process is stopped, no answer can arrive. */
  #watch(): void {
    this.#timer = this.#deps.clock.setTimeout(() => {
      const most = this.#isReady ? mostUnanswered : mostUnansweredAtStart
      if (this.#unanswered >= most) {
        this.kill(`it gave no sign of life for ${most} s`)
        return
      }
      this.#unanswered += 1
      this.#send({ kind: 'ping' })
      this.#watch()
    }, pingEveryMs)
  }

  #send(order: Order): void {
    if (this.#child !== undefined && !this.#gone) this.#tell(this.#child, order)
  }

  #tell(child: ChildProcess, order: Order): void {
    // One that has just died is heard of by its exit.
    if (child.connected) child.send(order, () => {})
  }

  #end(words: string, crashed = false): void {
    if (this.#gone) return
    const { clock } = this.#deps
    this.#gone = true
    clock.clearTimeout(this.#timer)
    this.#sayReady(undefined)
    const livedMs = clock.now() - this.#startedAt
    this.#deps.ended({ words, told: this.#told, crashed, livedMs })
    this.#sayEnded()
    for (const { reject } of this.#calls.values()) reject(new DataPlaneGone(words))
    this.#calls.clear()
  }
}

/** Of faults in native code, and of calls for which a seccomp filter kills. */
const crashSignals: ReadonlySet<NodeJS.Signals> = new Set([
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGILL',
  'SIGSEGV',
  'SIGSYS',
  'SIGTRAP',
])

/** What a process that is gone can't be: listening, short of descriptors, hung. */
const nothingNow = { binds: [], pauses: [], hung: [] } satisfies Partial<News>

const cannotStart = (error: unknown): string =>
  `could not be started: ${error instanceof Error ? error.message : String(error)}`
