import { createSocket, type Socket } from 'node:dgram'
import { syslogText } from '../../relay/access-log/time-text.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import { errorCode } from '../../util/error-code.ts'
import { messageOf } from '../../util/usher-error.ts'
import { LineQueue, type LineSink, loseLines, type SayTrouble, tooSlow } from './sink.ts'

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
  readonly #say: SayTrouble
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

  constructor(address: string, port: number, clock: Clock, say: SayTrouble) {
    this.#clock = clock
    this.#say = say
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
      const timer = this.#clock.setTimeout(() => this.#idle?.(), ms)
      await over
      this.#clock.clearTimeout(timer)
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
        const told = (error: Error | null): void => {
          // The one that was refused went before.
          if (error) this.#refused(error, errorCode(error) === 'ECONNREFUSED' ? 2 : 1)
        }
        for (let at = 0; at < bytes.length;) {
          const end = bytes.indexOf(lineEnd, at)
          if (this.#isOver) lost(1)
          else this.#socket.send(bytes, at, end - at, told)
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
      errorCode(error) === 'ECONNREFUSED' ? 'nobody listens there' : messageOf(error),
    )
  }

  #troubled(why: string): void {
    this.#clock.clearTimeout(this.#well)
    this.#well = this.#clock.setTimeout(() => {
      this.#trouble = ''
      this.#say('')
    }, wellMs)
    this.#well.unref?.()
    if (why === this.#trouble) return
    this.#trouble = why
    this.#say(why)
  }
}

const lineEnd = 10

/** Each line with its header; together, as one buffer for each would cost as much as sending it. */
const messages = (text: string): Buffer => {
  const header = `<${priority}>${syslogText(Date.now())} usher[${process.pid}]: `
  return Buffer.from(`${header}${text.slice(0, -1).replaceAll('\n', `\n${header}`)}\n`)
}
