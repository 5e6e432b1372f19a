import type { Socket } from 'node:net'
import type { GrowingBytes } from '../../util/growing-bytes.ts'
import type { AnswerTimer } from './answer-timer.ts'
import { SaidBytes } from './said-bytes.ts'

/** What an endpoint is told for its client. */
export class Telling {
  readonly #socket: Socket
  readonly #said: SaidBytes
  readonly #answer: AnswerTimer
  /** Bytes of the header, which the client has not said. */
  #header: number
  #swallowed = 0

  /**
   * What the client says is kept, up to `replay` bytes, for another endpoint. `heard`: so many
   * bytes of the client the endpoint has been sent before.
   */
  constructor(socket: Socket, replay: number, answer: AnswerTimer, heard = 0) {
    this.#socket = socket
    this.#said = new SaidBytes(heard === 0 ? replay : 0)
    this.#answer = answer
    this.#header = socket.bytesWritten - heard
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
    this.#said.add(chunk)
    if (this.answerBytes === 0) this.#answer.start(answerMs)
    return this.#socket.write(chunk)
  }

  /** The endpoint has answered what only it was asked. */
  swallow(): void {
    this.#swallowed = 1
  }

  /** Bytes that have come from it for the client. */
  get answerBytes(): number {
    return this.#socket.bytesRead - this.#swallowed
  }

  /** Whether nothing that the client has said, an end included, was sent. */
  get hasHeardNothing(): boolean {
    const { bytesWritten, writableEnded } = this.#socket
    return bytesWritten === this.#header && !writableEnded
  }

  /** Whether all that was sent for the client can be sent to another endpoint. */
  get isRepeatable(): boolean {
    return this.hasHeardNothing || this.#said.isRepeatable
  }

  /** All that the client has said, where it is kept. */
  get said(): Buffer | undefined {
    return this.#said.bytes
  }

  /** What the client has said, for another endpoint. */
  take(): GrowingBytes | undefined {
    return this.#said.take()
  }

  /** It is not going to be said again. */
  forget(): void {
    this.#said.forget()
  }
}
