import type { Socket } from 'node:net'
import { type ConnectionOptions, connect as secure, type TLSSocket } from 'node:tls'
import type { AddressPort } from '../util/ip.ts'
import { connectTo } from '../util/connect-to.ts'
import {
  type CheckLimits,
  type CheckOutcome,
  failed,
  passed,
  givenUp,
  quote,
  socketFailure,
  tlsFailure,
  tooLate,
} from './check.ts'

/** What follows from the bytes received so far. */
export interface Reply {
  /** Known now: the connection ends, at once if all bytes are done with and there is nothing to send. */
  readonly outcome?: CheckOutcome
  /** How many of the bytes are done with; none of the rest has been looked at. */
  readonly used?: number
  readonly send?: Uint8Array
  /** TLS begins, before `send`. */
  readonly secure?: true
}

export interface Script {
  /** Sent when connected, before TLS. */
  readonly greeting?: Uint8Array | undefined
  /** Where all else is sent over TLS. */
  readonly tls?: ConnectionOptions | undefined
  /** It ends when it is connected, without a look at what comes: that costs half as much again. */
  readonly isOver?: true
  /** Sent then; nothing where the server sends first. */
  readonly opening?: Uint8Array
  /** Given the bytes not used yet; undefined as long as more are needed. */
  receive(bytes: Buffer): Reply | undefined
  /** What follows from bytes after which nothing came any more. */
  unmatched?(bytes: Buffer): CheckOutcome
  /** An answer that goes on beyond so many bytes is none. */
  readonly mostBytes: number
  /** It does so after its answer. It is not sent an end: it may still write. */
  readonly serverCloses?: true
}

/** How long a server may take to close its side; also what is read meanwhile, in bytes. */
const goodbye = { ms: 200, bytes: 64 * 1024 }

/** Converses with a server; settles when the connection is closed, soon after `timeoutMs` at most. */
export const converse = (
  at: AddressPort,
  limits: CheckLimits,
  script: Script,
): Promise<CheckOutcome> =>
  new Promise(resolve => new Conversation(limits, script, resolve).open(at))

class Conversation {
  readonly #limits: CheckLimits
  readonly #script: Script
  readonly #resolve: (outcome: CheckOutcome) => void
  #socket: Socket | undefined
  /** Over TLS the socket below. */
  #plain: Socket | undefined
  #timer: NodeJS.Timeout | undefined
  #outcome: CheckOutcome | undefined
  #isConnected = false
  #bytes: Buffer = Buffer.alloc(0)
  #bytesAfter = 0

  constructor(
    limits: CheckLimits,
    script: Script,
    resolve: (outcome: CheckOutcome) => void,
  ) {
    this.#limits = limits
    this.#script = script
    this.#resolve = resolve
  }

  open({ address, port }: AddressPort): void {
    const { timeoutMs, signal } = this.#limits
    if (signal.aborted) return this.#resolve(givenUp)
    signal.addEventListener('abort', this.#giveUp)
    this.#timer = setTimeout(
      () => this.#end(this.#unmatched() ?? tooLate(this.#isConnected, this.#limits)),
      timeoutMs,
    )
    const socket = connectTo(address, port, { noDelay: true })
    this.#listenTo(socket)
    socket.once('connect', () => {
      this.#isConnected = true
      const { greeting, tls, opening, isOver } = this.#script
      const open = (over: Socket) => opening !== undefined && over.write(opening)
      if (greeting !== undefined) socket.write(greeting)
      if (isOver) return this.#end(passed)
      if (tls === undefined) return open(socket)
      // Not before it is known who that is.
      const over = this.#secure(socket, tls)
      return over.once('secureConnect', () => open(over))
    })
    socket.once('close', this.#closed)
    this.#plain = socket
  }

  #listenTo(socket: Socket): void {
    this.#socket = socket
    socket.on('data', this.#data)
    socket.on('end', () => this.#end(this.#unmatched() ?? failed(this.#endText())))
    socket.on('error', error => this.#end(socketFailure(error)))
  }

  readonly #data = (bytes: Buffer): void => {
    if (this.#outcome !== undefined) {
      this.#bytesAfter += bytes.length
      if (this.#bytesAfter > goodbye.bytes) this.#destroy()
      return
    }
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    for (;;) {
      const reply = this.#script.receive(this.#bytes)
      if (reply === undefined) break
      this.#bytes = this.#bytes.subarray(reply.used ?? 0)
      if (reply.outcome !== undefined) return this.#goodbye(reply.outcome, reply.send)
      if (reply.secure && this.#plain !== undefined)
        // Certificates are not looked at: it learns whether a server is up, and tells it nothing.
        this.#secure(this.#plain, { rejectUnauthorized: false })
      if (reply.send !== undefined) this.#socket?.write(reply.send)
      if (this.#bytes.length === 0) return
    }
    if (this.#bytes.length >= this.#script.mostBytes)
      this.#end(failed(`${this.#bytes.length} bytes without a complete answer`))
  }

  #secure(plain: Socket, options: ConnectionOptions): TLSSocket {
    // What came before TLS may be anyone's: it is not used.
    this.#bytes = Buffer.alloc(0)
    for (const event of ['data', 'end', 'error']) plain.removeAllListeners(event)
    plain.on('error', error => this.#end(socketFailure(error)))
    const over = secure({ socket: plain, ...options })
    over.on('error', error => this.#end(tlsFailure(error)))
    this.#listenTo(over)
    // Without its plain socket there is nothing to end.
    over.once('close', () => plain.destroy())
    return over
  }

  /**
   * Sends `last` and lets the server close: what it sends to a socket that is gone would
   * be answered by a reset, which is an error in its log.
   */
  #goodbye(outcome: CheckOutcome, last?: Uint8Array): void {
    if (last === undefined && this.#bytes.length === 0) return this.#end(outcome)
    this.#outcome = outcome
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#destroy(), goodbye.ms)
    if (last !== undefined) this.#socket?.end(last)
    else if (this.#script.serverCloses !== true) this.#socket?.end()
  }

  #end(outcome: CheckOutcome): void {
    this.#outcome ??= outcome
    this.#destroy()
  }

  #destroy(): void {
    this.#socket?.destroy()
    this.#plain?.destroy()
  }

  readonly #giveUp = (): void => this.#end(givenUp)

  readonly #closed = (): void => {
    clearTimeout(this.#timer)
    this.#limits.signal.removeEventListener('abort', this.#giveUp)
    this.#resolve(this.#outcome ?? failed(this.#endText()))
  }

  #unmatched(): CheckOutcome | undefined {
    return this.#bytes.length === 0 ? undefined : this.#script.unmatched?.(this.#bytes)
  }

  #endText(): string {
    return this.#bytes.length === 0
      ? 'closed without an answer'
      : `closed after ${quote(this.#bytes)}`
  }
}
