import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { dial, type Line } from './line.ts'
import { errorName } from './load.ts'
import { ResponseReader } from './response-reader.ts'

/** How long a server may take to close after its answer. */
const closeWithinMs = 1000

export interface OneShotOwner {
  onConnect?(one: OneShot, at: number): void
  /** The answer is whole. */
  onAnswer?(one: OneShot, at: number): void
  /** It is closed; '' when the answer was whole and the server closed after it. */
  onEnd(one: OneShot, failure: string): void
}

/**
 * A connection of one request, closed by the server: that leaves TIME_WAIT on its side
 * (RFC 9293, 3.6.1), so no run can use up the client's ports.
 */
export class OneShot {
  readonly socket: Socket
  /** When it was due, and when it was dialled; they differ in an open loop. */
  readonly dueAt: number
  readonly dialledAt = performance.now()
  readonly #line: Line
  readonly #owner: OneShotOwner
  readonly #reader = new ResponseReader()
  #state: 'dialling' | 'asked' | 'answered' = 'dialling'
  #answeredAt = 0
  #failure = ''

  constructor(line: Line, owner: OneShotOwner, dueAt?: number) {
    this.dueAt = dueAt ?? this.dialledAt
    this.#line = line
    this.#owner = owner
    this.socket = dial(line, length => this.#read(length))
    this.socket.on('connect', () => this.#connected())
    this.socket.on('end', () => {
      if (this.#state === 'asked' && this.#reader.end()) this.#answered()
    })
    this.socket.on('error', error => {
      this.#failure ||= errorName(error)
    })
    this.socket.on('close', () => {
      const early = this.#state === 'answered' ? '' : 'closed early'
      this.#owner.onEnd(this, this.#failure || early)
    })
  }

  get isAnswered(): boolean {
    return this.#state === 'answered'
  }

  /** Ends it if it has no whole answer `timeoutMs` after it was due, or isn't closed. */
  expire(now: number, timeoutMs: number): void {
    if (this.#state === 'answered') {
      if (now - this.#answeredAt >= closeWithinMs) this.#fail('not closed by the server')
    } else if (now - this.dueAt >= timeoutMs) {
      this.#fail(this.#state === 'dialling' ? 'connect timeout' : 'timeout')
    }
  }

  #fail(failure: string): void {
    this.#failure ||= failure
    this.socket.destroy()
  }

  #connected(): void {
    this.#owner.onConnect?.(this, performance.now())
    this.#state = 'asked'
    this.socket.write(this.#line.lastRequest, 'latin1')
  }

  #read(length: number): void {
    if (this.#state !== 'asked') return this.#fail('unexpected bytes')
    const progress = this.#reader.read(this.#line.buffer, length)
    if (progress === 'wrong') return this.#fail('wrong response')
    if (progress === 'whole') this.#answered()
  }

  #answered(): void {
    if (this.#reader.complaint !== '') return this.#fail(this.#reader.complaint)
    this.#state = 'answered'
    this.#answeredAt = performance.now()
    this.#owner.onAnswer?.(this, this.#answeredAt)
  }
}
