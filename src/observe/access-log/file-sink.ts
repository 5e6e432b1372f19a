import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import type { Clock, Timer } from '../../util/clock.ts'
import { errorCode } from '../../util/error-code.ts'
import { messageOf } from '../../util/usher-error.ts'
import {
  LineQueue,
  type LineSink,
  loseLines,
  type SayTrouble,
  tooSlow,
  type Waiting,
} from './sink.ts'

/** What comes within so many milliseconds is written together, or up to so many bytes. */
const gatherMs = 20
const gatherBytes = 64 * 1024
/** Milliseconds between two looks whether the path leads to another file. */
const lookMs = 3000
/** And until a write is tried again: to a reader that is slow, and after an error. */
const slowMs = 50
const failedMs = 1000

/** Group may read: those who ship logs. */
const fileMode = 0o640

/** A FIFO without a reader must not hold up who opens it, nor a terminal become ours. */
const flags =
  constants.O_WRONLY |
  constants.O_APPEND |
  constants.O_CREAT |
  (constants.O_NONBLOCK ?? 0) |
  (constants.O_NOCTTY ?? 0)

/** What is being written. */
interface Current {
  readonly bytes: Buffer
  readonly from: readonly Waiting[]
  written: number
}

/**
 * Lines to a file that may be rotated, or to a FIFO. All that may take its time is done by threads
 * of libuv, one thing at a time, so that a dead disk holds up nothing here and takes one of them.
 * What can't be written now is tried again and again; beyond a bound lines are lost.
 */
export class FileSink implements LineSink {
  readonly #path: string
  readonly #clock: Clock
  readonly #say: SayTrouble
  readonly #queue = new LineQueue()
  #current: Current | undefined
  #file: FileHandle | undefined
  /** Which file that is. */
  #identity = ''
  #lookedAt = -Infinity
  #trouble = ''
  #isBusy = false
  #isOver = false
  #timer: Timer | undefined
  #idle: (() => void) | undefined

  constructor(path: string, clock: Clock, say: SayTrouble) {
    this.#path = path
    this.#clock = clock
    this.#say = say
    // Also without a line: what is wrong with it is known at the start.
    void this.#run()
  }

  write(text: string, lines: number, lost: (lines: number) => void): void {
    if (this.#isOver) return lost(lines)
    const wasEmpty = this.#queue.isEmpty
    if (!this.#queue.add(text, lines, lost))
      return this.#troubled(this.#trouble || tooSlow)
    if (this.#isBusy || this.#trouble !== '') return
    if (this.#queue.bytes >= gatherBytes) void this.#run()
    else if (wasEmpty) this.#runIn(gatherMs)
  }

  reopen(): void {
    this.#lookedAt = -Infinity
    void this.#run()
  }

  async end(ms: number): Promise<void> {
    if (!this.#isEmpty) {
      const over = new Promise<void>(resolve => (this.#idle = resolve))
      const timer = this.#clock.setTimeout(() => this.#idle?.(), ms)
      void this.#run()
      await over
      this.#clock.clearTimeout(timer)
    }
    this.#isOver = true
    this.#clock.clearTimeout(this.#timer)
    this.#loseAll()
    // A thread that hangs in a write has it still.
    if (!this.#isBusy) await this.#close()
  }

  get #isEmpty(): boolean {
    return this.#queue.isEmpty && this.#current === undefined
  }

  #runIn(ms: number): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = this.#clock.setTimeout(() => void this.#run(), ms)
    this.#timer.unref?.()
  }

  /** Does what there is to do, and sets the timer for the next time. Never rejects. */
  async #run(): Promise<void> {
    if (this.#isBusy || this.#isOver) return
    this.#isBusy = true
    let next = lookMs
    try {
      do {
        await this.#look()
        await this.#writeSome()
      } while (!this.#isEmpty && !this.#isOver)
      this.#troubled('')
    } catch (error) {
      const isSlow = errorCode(error as Error) === 'EAGAIN'
      next = isSlow ? slowMs : failedMs
      if (!isSlow) await this.#failed(error)
    }
    this.#isBusy = false
    if (this.#isOver) return void this.#close()
    if (this.#isEmpty) this.#idle?.()
    this.#runIn(next)
  }

  /** Opens the file, or the one that has taken its place. */
  async #look(): Promise<void> {
    const now = this.#clock.now()
    if (this.#file !== undefined && now - this.#lookedAt < lookMs) return
    this.#lookedAt = now
    if (this.#file !== undefined) {
      const there = await stat(this.#path).catch(() => undefined)
      if (there !== undefined && identityOf(there) === this.#identity) return
      await this.#close()
    }
    const file = await open(this.#path, flags, fileMode)
    this.#file = file
    this.#identity = identityOf(await file.stat())
  }

  async #writeSome(): Promise<void> {
    const current = (this.#current ??= this.#next())
    if (current === undefined) return
    const { bytes } = current
    const { bytesWritten = 0 } = (await this.#file?.write(bytes, current.written)) ?? {}
    current.written += bytesWritten
    if (current.written >= bytes.length) this.#current = undefined
  }

  #next(): Current | undefined {
    if (this.#queue.isEmpty) return undefined
    const from = this.#queue.take()
    return { bytes: Buffer.from(from.map(({ text }) => text).join('')), from, written: 0 }
  }

  async #failed(error: unknown): Promise<void> {
    const code = errorCode(error as Error)
    if (this.#file === undefined || code === 'EPIPE') {
      await this.#close()
      this.#troubled(whyNotOpened(this.#path, code, error))
    } else this.#troubled(messageOf(error))
  }

  #troubled(why: string): void {
    if (why === this.#trouble) return
    this.#trouble = why
    this.#say(why)
  }

  /** A line that was begun in a file does not go on in another one. */
  async #close(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    this.#dropTorn()
    await file?.close().catch(() => {})
  }

  #dropTorn(): void {
    const { bytes, from, written } = this.#current ?? { from: [], written: 0 }
    if (bytes === undefined || written === 0) return
    const done = countLines(bytes.subarray(0, written))
    const isTorn = bytes[written - 1] !== lineEnd
    if (isTorn) loseLines(from, done, done + 1)
    const left = done + (isTorn ? 1 : 0)
    const start = isTorn ? bytes.indexOf(lineEnd, written) + 1 : written
    this.#current = { bytes: bytes.subarray(start), from: after(from, left), written: 0 }
  }

  #loseAll(): void {
    const { bytes, from, written } = this.#current ?? { from: [], written: 0 }
    if (bytes !== undefined) loseLines(from, countLines(bytes.subarray(0, written)))
    this.#current = undefined
    loseLines(this.#queue.take(), 0)
  }
}

const lineEnd = 10

const countLines = (bytes: Buffer): number => {
  let count = 0
  for (let at = bytes.indexOf(lineEnd); at >= 0; at = bytes.indexOf(lineEnd, at + 1))
    count += 1
  return count
}

/** What is left of them without the first `count` lines; for the account alone. */
const after = (waiting: readonly Waiting[], count: number): readonly Waiting[] => {
  let left = count
  return waiting.flatMap(one => {
    const gone = Math.min(one.lines, left)
    left -= gone
    return gone === one.lines ? [] : [{ ...one, lines: one.lines - gone }]
  })
}

const identityOf = ({ dev, ino }: Stats): string => `${dev} ${ino}`

/** Why a file can't be written, in words, with what helps. */
const whyNotOpened = (path: string, code: string, error: unknown): string => {
  switch (code) {
    case 'ENOENT':
      return `there is no directory ${dirname(path)}; make it`
    case 'ENOTDIR':
      return `${dirname(path)} is no directory`
    case 'EISDIR':
      return 'it is a directory; give the path of a file'
    case 'EACCES':
    case 'EPERM':
      return `user ${process.geteuid?.() ?? userInfo().username} may not write to it`
    case 'EROFS':
      return 'it is on a read-only file system'
    case 'ENXIO':
    case 'EPIPE':
      return 'nobody reads from it'
    default:
      return messageOf(error)
  }
}
