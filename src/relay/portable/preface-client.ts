import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import { errorCode } from '../../util/error-code.ts'
import { GrowingBytes } from '../../util/growing-bytes.ts'
import type { Cause } from '../cause.ts'
import { mostPrefaceBytes, noRules, prefaceMs, type Preface } from '../preface.ts'
import type { Arrival } from './arrival.ts'
import type { ListenerState } from './listener-state.ts'

interface PrefaceContext {
  readonly clock: Clock
  readonly state: Pick<ListenerState, 'preface'>
  /** All of it is there; the socket still has what is for the endpoint. */
  read(preface: Preface): void
  refused(cause: Cause, detail: string): void
}

/** A client that has to say something before an endpoint is chosen for it. */
export class PrefaceClient {
  readonly #arrival: Arrival
  readonly #socket: Socket
  readonly #hasHeader: boolean
  readonly #context: PrefaceContext
  readonly #said = new GrowingBytes(mostPrefaceBytes)
  readonly #timer: Timer
  /** How many of its requests were answered. */
  #answered = 0

  /** `hasHeader`: it begins with a header of the PROXY protocol. */
  constructor(arrival: Arrival, hasHeader: boolean, context: PrefaceContext) {
    this.#arrival = arrival
    this.#socket = arrival.socket
    this.#hasHeader = hasHeader
    this.#context = context
    const late = `not whole after ${prefaceMs / 1000} s`
    this.#timer = context.clock.setTimeout(() => this.#refuse('PH', late), prefaceMs)
    this.#socket.on('data', this.#data).on('end', this.#ended).on('error', this.#failed)
  }

  kill(): void {
    this.#refuse('KD', 'drain time over')
  }

  readonly #data = (chunk: Buffer): void => {
    this.#said.add(chunk)
    const { bytes } = this.#said
    // By what holds now, as the choice that follows is.
    const rules = this.#context.state.preface ?? noRules
    const found = rules.read(bytes, this.#hasHeader, answers => {
      this.#socket.write(answers.slice(this.#answered))
      this.#answered = answers.length
    })
    if (typeof found === 'string') this.#refuse('PH', found)
    else if (found !== undefined) this.#take(found, bytes.subarray(found.headerBytes))
  }

  readonly #ended = (): void => this.#left('closed')

  readonly #failed = (error: Error): void => this.#left(errorCode(error))

  /** Who has said nothing has only looked whether somebody listens. */
  #left(detail: string): void {
    this.#refuse(this.#said.length === 0 ? 'CC' : 'PH', detail)
  }

  #take(preface: Preface, rest: Buffer): void {
    this.#end()
    this.#arrival.tell(preface)
    this.#socket.pause()
    if (rest.length > 0) this.#socket.unshift(rest)
    this.#context.read(preface)
    if (!this.#socket.destroyed) this.#socket.resume()
  }

  #refuse(cause: Cause, detail: string): void {
    this.#end()
    // What comes of its end is nobody's any more.
    this.#socket.on('error', () => {})
    this.#context.refused(cause, detail)
  }

  #end(): void {
    this.#context.clock.clearTimeout(this.#timer)
    this.#socket
      .off('data', this.#data)
      .off('end', this.#ended)
      .off('error', this.#failed)
  }
}
