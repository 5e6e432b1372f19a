import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../services.ts'
import { destroyAll, errorName } from './load.ts'
import type { Page } from './question.ts'
import { ResponseReader } from './response-reader.ts'

/** Room for what comes in one read. */
const bufferBytes = 64 * 1024

/** Where HTTP connections go and what is asked on each. */
export interface Line {
  readonly to: Endpoint
  readonly request: string
  /** Asks the server to close after its answer. */
  readonly lastRequest: string
  /**
   * All connections read into one buffer: libuv reads and calls back in one go, and what
   * has come is looked at only then. It stays in the processor's cache.
   */
  readonly buffer: Uint8Array
}

export const lineTo = ({ to, path }: Page): Line => ({
  to,
  request: requestText(path, false),
  lastRequest: requestText(path, true),
  buffer: new Uint8Array(bufferBytes),
})

/** The name that servers are asked for, whatever their address. */
export const requestHost = 'usher-bench'

const requestText = (path: string, close: boolean): string =>
  `GET ${path} HTTP/1.1\r\nHost: ${requestHost}\r\n${close ? 'Connection: close\r\n' : ''}\r\n`

/** Dials, with `onBytes` told how many bytes have come into the line's buffer. */
export const dial = (
  { to, buffer }: Pick<Line, 'to' | 'buffer'>,
  onBytes: (length: number) => void,
): Socket =>
  connect({
    host: to.address,
    port: to.port,
    noDelay: true,
    onread: {
      buffer,
      callback: length => {
        onBytes(length)
        return true
      },
    },
  })

/** What a connection tells the load that it is part of. */
export interface ConnectionOwner {
  /** It can be asked: it has connected, or its answer was whole at `at`. */
  onFree(connection: HttpConnection, at: number): void
  onAnswer(connection: HttpConnection, at: number): void
  /** It has ended; `failure` is '' when it was to end, and when the server had said so. */
  onEnd(connection: HttpConnection, failure: string): void
}

/** How long a server may take to close when it is to. */
const closeWithinMs = 1000

/**
 * One connection that carries one request at a time. After a last one the server closes: that
 * leaves TIME_WAIT on its side (RFC 9293, 3.6.1), so no run can use up the client's ports.
 */
export class HttpConnection {
  readonly socket: Socket
  readonly dialledAt = performance.now()
  readonly #line: Line
  readonly #owner: ConnectionOwner
  readonly #reader = new ResponseReader()
  #state: 'dialling' | 'free' | 'asked' | 'leaving' | 'ended' = 'dialling'
  #since: number
  #dueAt: number
  #isLast = false
  #isAnswered = false
  #failure = ''

  /** @param dueAt - when it should have been dialled, where that differs */
  constructor(line: Line, owner: ConnectionOwner, dueAt?: number) {
    this.#line = line
    this.#owner = owner
    this.#dueAt = dueAt ?? this.dialledAt
    this.#since = this.#dueAt
    this.socket = dial(line, length => this.#read(length))
    this.socket.on('connect', () => this.#free(performance.now()))
    this.socket.on('end', () => {
      if (this.#state === 'asked' && this.#reader.end()) this.#answered(true)
    })
    this.socket.on('error', error => {
      this.#failure ||= errorName(error)
    })
    this.socket.on('close', () => {
      const early = this.#state === 'leaving' ? '' : 'closed early'
      this.#state = 'ended'
      this.#owner.onEnd(this, this.#failure || early)
    })
  }

  /** When what is asked now, or was last, was due. */
  get dueAt(): number {
    return this.#dueAt
  }

  get isAnswered(): boolean {
    return this.#isAnswered
  }

  /** Since when it waits for something from the other side; 0 when it doesn't. */
  get waitingSince(): number {
    return this.#state === 'free' || this.#state === 'ended' ? 0 : this.#since
  }

  /** Only when it is free; from `since` on it has to be answered in time. */
  ask(dueAt: number, since: number, isLast = false): void {
    this.#state = 'asked'
    this.#dueAt = dueAt
    this.#since = since
    this.#isLast = isLast
    const { request, lastRequest } = this.#line
    this.socket.write(isLast ? lastRequest : request, 'latin1')
  }

  /** Asks once, for what was due when it was to be dialled, and has the server close it then. */
  askOnce(): void {
    this.ask(this.#dueAt, this.#dueAt, true)
  }

  /** Has the server close it, where that can be asked. */
  leave(now: number): void {
    if (this.#state === 'free') this.ask(now, now, true)
    else this.#fail('')
  }

  /** Ends it if it has waited for too long. */
  expire(now: number, withinMs: number): void {
    if (this.waitingSince === 0) return
    const waited = now - this.#since
    if (this.#state === 'leaving') {
      if (waited >= closeWithinMs) this.#fail('not closed by the server')
    } else if (waited >= withinMs)
      this.#fail(this.#state === 'dialling' ? 'connect timeout' : 'timeout')
  }

  #fail(failure: string): void {
    this.#failure ||= failure
    this.socket.destroy()
  }

  #read(length: number): void {
    if (this.#state !== 'asked') return this.#fail('unexpected bytes')
    const progress = this.#reader.read(this.#line.buffer, length)
    if (progress === 'wrong') return this.#fail('wrong response')
    if (progress === 'whole') this.#answered(this.#reader.closes)
  }

  /** @param leaves - a server may serve so many requests a connection: no failure. */
  #answered(leaves: boolean): void {
    if (this.#reader.complaint !== '') return this.#fail(this.#reader.complaint)
    const at = performance.now()
    this.#isAnswered = true
    this.#owner.onAnswer(this, at)
    if (!leaves && !this.#isLast) return this.#free(at)
    this.#state = 'leaving'
    this.#since = at
    if (!this.#isLast) this.socket.end()
  }

  #free(at: number): void {
    this.#state = 'free'
    this.#owner.onFree(this, at)
  }
}

/** Milliseconds before a lost connection is made anew, so that a dead target can't spin. */
const reconnectMs = 20
const sweepMs = 50
/** A connection that waits for so long at the end of a window may be stuck. */
const suspiciousMs = 250

export interface PoolPlan {
  readonly line: Line
  /** A connection that has no answer by then ends. */
  readonly answerWithinMs: number
  /** So many, each replaced when it ends; those that are added, without it. */
  readonly kept?: number
}

/** The connections of a load. Its owner is told nothing any more once it is stopped. */
export class Pool {
  readonly open = new Set<HttpConnection>()
  readonly #plan: PoolPlan
  readonly #owner: ConnectionOwner
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #sweeper: NodeJS.Timeout
  #isStopped = false

  constructor(plan: PoolPlan, owner: ConnectionOwner) {
    this.#plan = plan
    this.#owner = {
      onFree: (connection, at) => owner.onFree(connection, at),
      onAnswer: (connection, at) => owner.onAnswer(connection, at),
      onEnd: (connection, failure) => {
        this.open.delete(connection)
        if (this.#isStopped) return
        owner.onEnd(connection, failure)
        if (plan.kept !== undefined) this.#replace(failure)
      },
    }
    for (let count = 0; count < (plan.kept ?? 0); count += 1) this.add()
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs)
  }

  add(dueAt?: number): void {
    this.open.add(new HttpConnection(this.#plan.line, this.#owner, dueAt))
  }

  /** Waits until connections that seem stuck have answered or were given up. */
  async settleStuck(): Promise<void> {
    const limit = performance.now() - suspiciousMs
    const stuck = Array.from(this.open, connection => ({
      connection,
      since: connection.waitingSince,
    })).filter(({ since }) => since > 0 && since < limit)
    while (stuck.some(({ connection, since }) => connection.waitingSince === since))
      await sleep(20)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweeper)
    for (const timer of this.#timers) clearTimeout(timer)
    await destroyAll(Array.from(this.open, ({ socket }) => socket))
  }

  #replace(failure: string): void {
    if (failure === '') return this.add()
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.add()
    }, reconnectMs)
    this.#timers.add(timer)
  }

  #sweep(): void {
    const now = performance.now()
    for (const connection of this.open) connection.expire(now, this.#plan.answerWithinMs)
  }
}
