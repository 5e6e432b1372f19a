import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import { GrowingBytes } from '../../util/growing-bytes.ts'

/** The socket of an endpoint. What the client sends is buffered, for a replay to another endpoint. */
export class ReplayableUpstream {
  readonly #socket: Socket
  /** All that the client has sent, while that may have to be replayed. */
  #replayBuffer: GrowingBytes | undefined
  /** Beyond so many bytes the buffer is dropped. */
  readonly #maxReplayBytes: number
  readonly #answerTimer: AnswerTimer
  /** Bytes of the header, which are not the client's. */
  #headerBytes: number
  /** What has come from it before is not for the client. */
  readonly #bytesReadBefore: number

  /**
   * What the client sends is buffered, up to `replay` bytes. `alreadySent`: so many
   * bytes of the client the endpoint has been sent before.
   */
  constructor(socket: Socket, replay: number, answerTimer: AnswerTimer, alreadySent = 0) {
    this.#socket = socket
    this.#maxReplayBytes = replay
    if (alreadySent === 0 && replay > 0) this.#replayBuffer = new GrowingBytes(replay)
    this.#answerTimer = answerTimer
    this.#headerBytes = socket.bytesWritten - alreadySent
    this.#bytesReadBefore = socket.bytesRead - socket.readableLength
  }

  /**
   * `header` goes first, and at once; what the client has sent before, if anything, in the same
   * write. False when there is no room for more.
   */
  begin(
    header: Buffer | undefined,
    buffered: Buffer | undefined,
    answerMs: number | undefined,
  ): boolean {
    if (header === undefined) return !buffered?.length || this.send(buffered, answerMs)
    this.#headerBytes += header.length
    this.#socket.cork()
    let room = this.#socket.write(header)
    if (buffered?.length) room = this.send(buffered, answerMs)
    this.#socket.uncork()
    return room
  }

  /** False when there is no room for more; an answer is awaited for `answerMs`. */
  send(chunk: Buffer, answerMs: number | undefined): boolean {
    const length = (this.#replayBuffer?.length ?? 0) + chunk.length
    // A copy: a chunk may be a small part of a large buffer.
    if (length <= this.#maxReplayBytes) this.#replayBuffer?.add(chunk)
    else this.dropReplayBuffer()
    if (this.receivedBytes === 0) this.#answerTimer.start(answerMs)
    return this.#socket.write(chunk)
  }

  /** Bytes that have come from it for the client. */
  get receivedBytes(): number {
    return this.#socket.bytesRead - this.#bytesReadBefore
  }

  /** Whether nothing of the client's, an end included, was sent. */
  get hasReceivedNothing(): boolean {
    const { bytesWritten, writableEnded } = this.#socket
    return bytesWritten === this.#headerBytes && !writableEnded
  }

  /** Whether all that was sent for the client can be sent to another endpoint. */
  get isReplayable(): boolean {
    return this.hasReceivedNothing || this.replayBytes !== undefined
  }

  /** The content of the replay buffer; undefined where that is empty or dropped. */
  get replayBytes(): Buffer | undefined {
    return this.#replayBuffer?.length ? this.#replayBuffer.bytes : undefined
  }

  /** Hands the replay buffer on to another endpoint. */
  takeReplayBuffer(): GrowingBytes | undefined {
    const buffer = this.#replayBuffer?.length ? this.#replayBuffer : undefined
    this.dropReplayBuffer()
    return buffer
  }

  /** Nothing will be replayed. */
  dropReplayBuffer(): void {
    this.#replayBuffer = undefined
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
