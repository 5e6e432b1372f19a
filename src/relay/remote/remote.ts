import type { Clock, Timer } from '../../util/clock.ts'
import { Deferred } from '../../util/deferred.ts'
import type { CommonOrder, CommonReport, News } from './messages.ts'
import { type Patience, SignsOfLife } from './signs-of-life.ts'

/** The way to a thread or a process. */
export interface Channel<Call> {
  /** Orders of one that has ended go nowhere. */
  send(order: CommonOrder<Call>): void
  /** Ends it wherever it is. */
  kill(): void
  /** A number that is another one at the next check, if the other end lives. */
  beats(): number
}

export interface RemoteDeps<Call, Self> {
  readonly clock: Clock
  readonly patience: Patience
  /** Milliseconds to end in for one that was killed. */
  readonly deadMs: number
  /** Starts the thread or process; may throw. */
  readonly start: (remote: Remote<Call, Self>) => Channel<Call>
  readonly ready: (self: Self) => void
  /** It gives no sign of life, and is being killed. */
  readonly silent?: () => void
  /** Also what it sent in its last moments. */
  readonly news: (news: News, isGone: boolean) => void
  /** Called once, before calls are rejected. */
  readonly ended: (ending: RemoteEnding) => void
  /** It was to be killed and that was refused, or has not ended of it. */
  readonly killFailed: (detail: string) => void
  /** Follows, unless it has ended meanwhile. */
  readonly endProcess: () => void
}

export interface RemoteEnding {
  readonly error: Error
  /** By this process; the error says why. */
  readonly wasKilled: boolean
  /** It had been asked to. */
  readonly wasLeaving: boolean
  /** Milliseconds from its start. */
  readonly livedMs: number
}

/** What a call rejects with when the other end died before it answered. */
export class RemoteGone extends Error {}

/** Milliseconds for the log to get out before the process is ended. */
const logFlushMs = 200

interface Waiting {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

/** A thread or process that carries connections, from its start to its end. */
export class Remote<Call, Self> {
  readonly #deps: RemoteDeps<Call, Self>
  readonly #startedAt: number
  readonly #signs: SignsOfLife
  readonly #calls = new Map<number, Waiting>()
  #channel: Channel<Call> | undefined
  #lastId = 0
  #isReady = false
  #isLeaving = false
  #isGone = false
  #killReason = ''
  #overdue: Timer | undefined
  readonly #gone = new Deferred<void>()

  constructor(deps: RemoteDeps<Call, Self>) {
    const { clock, patience } = deps
    this.#deps = deps
    this.#startedAt = clock.now()
    this.#signs = new SignsOfLife(
      clock,
      patience,
      () => this.#channel?.beats() ?? 0,
      ms => {
        deps.silent?.()
        this.kill(`it did not respond for ${ms / 1000} s`)
      },
    )
  }

  start(): void {
    try {
      this.#channel = this.#deps.start(this)
      if (!this.#isGone) this.#signs.start()
    } catch (error) {
      // Out of descriptors or threads, for instance.
      this.end(error as Error)
    }
  }

  /** Whether it takes calls. */
  get isReady(): boolean {
    return this.#isReady && !this.#isGone
  }

  /** Nothing is sent any more: it has ended, or is about to. */
  get isOver(): boolean {
    return this.#isGone || this.#isLeaving
  }

  /** Rejects with RemoteGone, or with what went wrong at the other end. */
  call(call: Call): Promise<unknown> {
    if (this.isOver) return Promise.reject(new RemoteGone('it has ended'))
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject })
      this.#channel?.send({ kind: 'call', id, call })
    })
  }

  /** Asks it to end; its end is expected. */
  requestExit(): void {
    if (!this.isOver) this.#channel?.send({ kind: 'exit' })
    this.#isLeaving = true
  }

  /** Ends it in order, and after `ms` in any case. Resolves when it is gone. */
  async leave(ms: number): Promise<void> {
    const { clock } = this.#deps
    this.requestExit()
    const timer = clock.setTimeout(() => this.kill('it did not leave'), ms)
    await this.#gone.promise
    clock.clearTimeout(timer)
  }

  kill(reason: string): void {
    if (this.#isGone || this.#killReason !== '') return
    const { deadMs } = this.#deps
    this.#killReason = reason
    this.#signs.stop()
    const detail = `was killed (${reason}) and has not ended after ${deadMs / 1000} s`
    this.#overdue = this.#deps.clock.setTimeout(() => this.#killFailed(detail), deadMs)
    this.#channel?.kill()
  }

  /** The kernel, or a filter, does not let this process end it. */
  refused(error: Error): void {
    if (this.#isGone || this.#killReason === '') return
    this.#deps.clock.clearTimeout(this.#overdue)
    this.#killFailed(`can't be killed, though ${this.#killReason}: ${error.message}`)
  }

  receive(report: CommonReport<Self>): void {
    switch (report.kind) {
      case 'ready':
        this.#isReady = true
        this.#signs.ready()
        this.#deps.ready(report.self)
        return
      case 'news':
        this.#deps.news(report.news, this.#isGone)
        if (!this.isOver) this.#channel?.send({ kind: 'news-taken' })
        return
      case 'done':
        this.#settle(report.id)?.resolve(report.result)
        return
      case 'failed':
        this.#settle(report.id)?.reject(report.error)
    }
  }

  /** It has ended, or never was. */
  end(error: Error): void {
    if (this.#isGone) return
    const { clock, ended } = this.#deps
    this.#isGone = true
    this.#signs.stop()
    clock.clearTimeout(this.#overdue)
    const wasKilled = this.#killReason !== ''
    ended({
      error: wasKilled ? new Error(this.#killReason) : error,
      wasKilled,
      wasLeaving: this.#isLeaving,
      livedMs: clock.now() - this.#startedAt,
    })
    this.#gone.resolve()
    for (const { reject } of this.#calls.values()) reject(new RemoteGone(error.message))
    this.#calls.clear()
  }

  #killFailed(detail: string): void {
    const { clock, killFailed, endProcess } = this.#deps
    killFailed(detail)
    this.#overdue = clock.setTimeout(endProcess, logFlushMs)
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#calls.get(id)
    this.#calls.delete(id)
    return waiting
  }
}
