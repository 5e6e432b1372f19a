import type { Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { dial, type Line } from './line.ts'
import { errorName } from './load.ts'
import { ResponseReader } from './response-reader.ts'

/** What a kept connection tells the load that it is part of. */
export interface KeptOwner {
  /** It can be asked: it has connected, or its answer was whole at `at`. */
  onFree(connection: KeptConnection, at: number): void
  onAnswer(connection: KeptConnection, at: number): void
  /** It has ended; `failure` is '' when the server had said that it would. */
  onEnd(connection: KeptConnection, failure: string): void
}

/** One connection that carries one request at a time. */
export class KeptConnection {
  readonly socket: Socket
  readonly #line: Line
  readonly #owner: KeptOwner
  readonly #reader = new ResponseReader()
  #state: 'dialling' | 'free' | 'asked' | 'leaving' | 'ended' = 'dialling'
  #since = performance.now()
  #dueAt = 0
  #failure = ''

  constructor(line: Line, owner: KeptOwner) {
    this.#line = line
    this.#owner = owner
    this.socket = dial(line, length => this.#read(length))
    this.socket.on('connect', () => this.#free(performance.now()))
    this.socket.on('end', () => {
      if (this.#state === 'asked' && this.#reader.end()) this.#answered(true)
    })
    this.socket.on('error', error => {
      this.#failure ||= errorName(error)
    })
    this.socket.on('close', () => this.#ended())
  }

  /** When what is asked now, or was last, was due. */
  get dueAt(): number {
    return this.#dueAt
  }

  get isAsked(): boolean {
    return this.#state === 'asked'
  }

  /** Since when it waits for something from the other side; 0 when it doesn't. */
  get waitingSince(): number {
    return this.#state === 'free' || this.#state === 'ended' ? 0 : this.#since
  }

  /** Only when it is free. */
  ask(dueAt: number, now: number): void {
    this.#state = 'asked'
    this.#dueAt = dueAt
    this.#since = now
    this.socket.write(this.#line.request, 'latin1')
  }

  /** Has the server close it, which leaves TIME_WAIT there and not on our ports. */
  leave(now: number): void {
    if (this.#state !== 'free') return this.#fail('')
    this.#state = 'leaving'
    this.#since = now
    this.socket.write(this.#line.lastRequest, 'latin1')
  }

  /** Ends it if it has waited since before `limit`. */
  expire(limit: number): void {
    if (this.waitingSince === 0 || this.waitingSince > limit) return
    this.#fail(this.#state === 'dialling' ? 'connect timeout' : 'timeout')
  }

  #fail(failure: string): void {
    this.#failure ||= failure
    this.socket.destroy()
  }

  #read(length: number): void {
    if (this.#state === 'leaving') return
    if (this.#state !== 'asked') return this.#fail('unexpected bytes')
    const progress = this.#reader.read(this.#line.buffer, length)
    if (progress === 'more') return
    if (progress === 'wrong') return this.#fail('wrong response')
    this.#answered(this.#reader.closes)
  }

  /** @param leaves - a server may serve so many requests a connection: no failure. */
  #answered(leaves: boolean): void {
    if (this.#reader.complaint !== '') return this.#fail(this.#reader.complaint)
    const at = performance.now()
    this.#owner.onAnswer(this, at)
    if (!leaves) return this.#free(at)
    this.#state = 'leaving'
    this.#since = at
    this.socket.end()
  }

  #free(at: number): void {
    this.#state = 'free'
    this.#owner.onFree(this, at)
  }

  #ended(): void {
    const orderly = this.#state === 'leaving' ? '' : 'closed early'
    const failure = this.#failure || orderly
    this.#owner.onEnd(this, failure)
    this.#state = 'ended'
  }
}
