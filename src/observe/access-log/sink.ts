import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import { createSocket, type Socket } from 'node:dgram'
import { type Clock, type Timer, within } from '../../util/clock.ts'
import { messageOf, errorCode } from '../../util/usher-error.ts'
import { syslogText } from '../../relay/access-log/time-text.ts'
/** One destination of the access log. Nothing of it ever waits, but for `end`. */
export interface LineSink {
  /** Whole lines, so many. `lost` is given how many of them could not be written, now or later. */
  write(text: string, lines: number, lost: (lines: number) => void): void
  /** Looks whether another file is at its path. */
  reopen(): void
  /** Writes what waits, for `ms` milliseconds at most; the rest is lost. */
  end(ms: number): Promise<void>
}

/** Why it can't be written now, in words; '' when it can again. Said when that changes. */
export type ReportTrouble = (reason: string) => void

/** Bytes that may wait for a destination that does not take them. */
export const mostWaitingBytes = 16 * 1024 * 1024

const tooSlow = 'it cannot keep up, and some lines are dropped'

/** Lines that wait, in the order of their coming, bounded. */
class LineQueue {
  #waiting: Waiting[] = []
  #bytes = 0

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  /** As many UTF-16 units: all but a few lines are ASCII. */
  get bytes(): number {
    return this.#bytes
  }

  /** False when there is no room; then they are lost. */
  add(text: string, lines: number, lost: (lines: number) => void): boolean {
    if (this.#bytes + text.length > mostWaitingBytes) {
      lost(lines)
      return false
    }
    this.#waiting.push({ text, lines, lost })
    this.#bytes += text.length
    return true
  }

  take(): readonly Waiting[] {
    const taken = this.#waiting
    this.#waiting = []
    this.#bytes = 0
    return taken
  }
}

export interface Waiting {
  readonly text: string
  readonly lines: number
  readonly lost: (lines: number) => void
}

/** Of `waiting` one after the other, those from the line number `from` (from 0) to before `to` are lost. */
const loseLines = (
  waiting: readonly Waiting[],
  from: number,
  to = Number.POSITIVE_INFINITY,
): void => {
  let first = 0
  for (const { lines, lost } of waiting) {
    const count = Math.min(first + lines, to) - Math.max(first, from)
    if (count > 0) lost(count)
    first += lines
  }
}

/** What comes within so many milliseconds is written together, or up to so many bytes. */
const gatherMs = 20
const gatherBytes = 64 * 1024
/** Milliseconds between two checks whether the path leads to another file. */
const checkMs = 3000
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
  readonly #report: ReportTrouble
  readonly #queue = new LineQueue()
  #current: Current | undefined
  #file: FileHandle | undefined
  /** Which file that is. */
  #identity = ''
  #checkedAt = -Infinity
  #trouble = ''
  #isBusy = false
  #isOver = false
  #timer: Timer | undefined
  #idle: (() => void) | undefined

  constructor(path: string, clock: Clock, report: ReportTrouble) {
    this.#path = path
    this.#clock = clock
    this.#report = report
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
    this.#checkedAt = -Infinity
    void this.#run()
  }

  async end(ms: number): Promise<void> {
    if (!this.#isEmpty) {
      const over = new Promise<void>(resolve => (this.#idle = resolve))
      void this.#run()
      await within(this.#clock, ms, over)
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
    let next = checkMs
    try {
      do {
        await this.#checkFile()
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
  async #checkFile(): Promise<void> {
    const now = this.#clock.now()
    if (this.#file !== undefined && now - this.#checkedAt < checkMs) return
    this.#checkedAt = now
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
      this.#troubled(openProblem(this.#path, code, error))
    } else this.#troubled(messageOf(error))
  }

  #troubled(reason: string): void {
    if (reason === this.#trouble) return
    this.#trouble = reason
    this.#report(reason)
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
const openProblem = (path: string, code: string, error: unknown): string => {
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
      return 'no process reads from it'
    default:
      return messageOf(error)
  }
}

/** Lines sent in one turn of the event loop: 10 µs each, and there are others. */
const together = 128
/** Milliseconds without an error after which all is well again. */
const wellMs = 5000
/** Milliseconds until it is tried again whether there is a way. */
const againMs = 1000

/** Facility local0, severity info, as HAProxy's is by most examples. */
const priority = 16 * 8 + 6

/**
 * Lines to a syslog server over UDP, a datagram each, as HAProxy sends them (RFC 3164 without a host
 * name). That nobody listens is heard of where the other host says so; what a server has no room for
 * is lost without a word.
 */
export class SyslogSink implements LineSink {
  readonly #clock: Clock
  readonly #report: ReportTrouble
  readonly #socket: Socket
  readonly #queue = new LineQueue()
  #isConnected = false
  #isOver = false
  #isSending = false
  #trouble = ''
  #well: Timer | undefined
  /** To connect once more. */
  #again: Timer | undefined
  /** Whose line was sent last. */
  #lastLost: (lines: number) => void = () => {}
  #idle: (() => void) | undefined

  constructor(address: string, port: number, clock: Clock, report: ReportTrouble) {
    this.#clock = clock
    this.#report = report
    this.#socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
    this.#socket.on('error', error =>
      this.#isConnected
        ? this.#refused(error, 1)
        : this.#notConnected(error, () => this.#socket.connect(port, address)),
    )
    this.#socket.on('connect', () => {
      this.#isConnected = true
      this.#goOn()
    })
    this.#socket.unref()
    this.#socket.connect(port, address)
  }

  write(text: string, lines: number, lost: (lines: number) => void): void {
    if (this.#isOver) return lost(lines)
    if (!this.#queue.add(text, lines, lost)) this.#troubled(tooSlow)
    if (!this.#isSending) this.#goOn()
  }

  reopen(): void {
    // A datagram goes to whoever listens.
  }

  async end(ms: number): Promise<void> {
    if (!this.#queue.isEmpty || this.#isSending) {
      const over = new Promise<void>(resolve => (this.#idle = resolve))
      await within(this.#clock, ms, over)
    }
    this.#isOver = true
    this.#clock.clearTimeout(this.#well)
    this.#clock.clearTimeout(this.#again)
    loseLines(this.#queue.take(), 0)
    this.#socket.close()
  }

  #goOn(): void {
    if (!this.#isConnected || this.#queue.isEmpty) return
    this.#isSending = true
    void this.#sendAll()
  }

  /** Never rejects. */
  async #sendAll(): Promise<void> {
    let sent = 0
    while (!this.#queue.isEmpty) {
      for (const { text, lost } of this.#queue.take()) {
        this.#lastLost = lost
        const bytes = messages(text)
        const onSent = (error: Error | null): void => {
          // The one that was refused went before.
          if (error) this.#refused(error, errorCode(error) === 'ECONNREFUSED' ? 2 : 1)
        }
        for (let at = 0; at < bytes.length;) {
          const end = bytes.indexOf(lineEnd, at)
          if (this.#isOver) lost(1)
          else this.#socket.send(bytes, at, end - at, onSent)
          at = end + 1
          sent += 1
          if (sent % together === 0) await new Promise(setImmediate)
        }
      }
    }
    this.#isSending = false
    this.#idle?.()
  }

  /** There is no way to it yet, as while a host starts: that may come. */
  #notConnected(error: Error, again: () => void): void {
    loseLines(this.#queue.take(), 0)
    this.#troubled(messageOf(error))
    this.#again = this.#clock.setTimeout(again, againMs)
    this.#again.unref?.()
  }

  #refused(error: Error, lines: number): void {
    this.#lastLost(lines)
    this.#troubled(
      errorCode(error) === 'ECONNREFUSED' ? 'no process listens there' : messageOf(error),
    )
  }

  #troubled(reason: string): void {
    this.#clock.clearTimeout(this.#well)
    this.#well = this.#clock.setTimeout(() => {
      this.#trouble = ''
      this.#report('')
    }, wellMs)
    this.#well.unref?.()
    if (reason === this.#trouble) return
    this.#trouble = reason
    this.#report(reason)
  }
}

/** Each line with its header; together, as one buffer for each would cost as much as sending it. */
const messages = (text: string): Buffer => {
  const header = `<${priority}>${syslogText(Date.now())} usher[${process.pid}]: `
  return Buffer.from(`${header}${text.slice(0, -1).replaceAll('\n', `\n${header}`)}\n`)
}
