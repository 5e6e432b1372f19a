import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import { GrowingBytes } from '../../util/growing-bytes.ts'

/** What an endpoint is told for its client. */
export class Telling {
  readonly #socket: Socket
  /** All that the client has said, for as long as that may have to be said to another endpoint. */
  #said: GrowingBytes | undefined
  /** Beyond so many bytes nothing is kept any more. */
  readonly #most: number
  readonly #answer: AnswerTimer
  /** Bytes of the header, which the client has not said. */
  #header: number
  /** What has come from it before is not for the client. */
  readonly #before: number

  /**
   * What the client says is kept, up to `replay` bytes, for another endpoint. `heard`: so many
   * bytes of the client the endpoint has been sent before.
   */
  constructor(socket: Socket, replay: number, answer: AnswerTimer, heard = 0) {
    this.#socket = socket
    this.#most = replay
    if (heard === 0 && replay > 0) this.#said = new GrowingBytes(replay)
    this.#answer = answer
    this.#header = socket.bytesWritten - heard
    this.#before = socket.bytesRead - socket.readableLength
  }

  /**
   * `header` goes first, and at once; what the client has said before, if anything, in the same
   * write. False when there is no room for more.
   */
  begin(
    header: Buffer | undefined,
    said: Buffer | undefined,
    answerMs: number | undefined,
  ): boolean {
    if (header === undefined) return !said?.length || this.say(said, answerMs)
    this.#header += header.length
    this.#socket.cork()
    let room = this.#socket.write(header)
    if (said?.length) room = this.say(said, answerMs)
    this.#socket.uncork()
    return room
  }

  /** False when there is no room for more; an answer is awaited for `answerMs`. */
  say(chunk: Buffer, answerMs: number | undefined): boolean {
    const length = (this.#said?.length ?? 0) + chunk.length
    // A copy: a chunk may be a small part of a large buffer.
    if (length <= this.#most) this.#said?.add(chunk)
    else this.forget()
    if (this.answerBytes === 0) this.#answer.start(answerMs)
    return this.#socket.write(chunk)
  }

  /** Bytes that have come from it for the client. */
  get answerBytes(): number {
    return this.#socket.bytesRead - this.#before
  }

  /** Whether nothing that the client has said, an end included, was sent. */
  get hasHeardNothing(): boolean {
    const { bytesWritten, writableEnded } = this.#socket
    return bytesWritten === this.#header && !writableEnded
  }

  /** Whether all that was sent for the client can be sent to another endpoint. */
  get isRepeatable(): boolean {
    return this.hasHeardNothing || this.said !== undefined
  }

  /** All that the client has said, where it is kept, and something. */
  get said(): Buffer | undefined {
    return this.#said?.length ? this.#said.bytes : undefined
  }

  /** The same for another endpoint, and here no more. */
  take(): GrowingBytes | undefined {
    const said = this.#said?.length ? this.#said : undefined
    this.forget()
    return said
  }

  /** It is not going to be said again. */
  forget(): void {
    this.#said = undefined
  }
}

/** How long an endpoint may take for its first byte after the client's first. */
export class AnswerTimer {
  readonly #clock: Clock
  readonly #late: () => void
  #timer: Timer | undefined

  /** `late` is called when the time of `start` is over. */
  constructor(clock: Clock, late: () => void) {
    this.#clock = clock
    this.#late = late
  }

  /** In milliseconds; undefined: it may take any time. Does nothing while it is running. */
  start(ms: number | undefined): void {
    if (ms !== undefined) this.#timer ??= this.#clock.setTimeout(this.#late, ms)
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
