import type { Server, Socket } from 'node:net'
import { EPOLLIN } from '../../../ffi/constants.ts'
import { errnoOf } from '../../../ffi/errno.ts'
import { acceptGate, type AcceptGate } from './accept-gate.ts'
import { Descriptor } from './descriptor.ts'
import { reset } from './reset.ts'
import { StreamSocket, type StreamOptions } from './stream-socket.ts'

/** Clients that wait here where the kernel can't keep them; the next are reset. */
const mostWaiting = 1024

/** A server of node:net as system calls see a listening socket. */
export class ListeningSocket extends Descriptor {
  readonly #server: Server
  readonly #options: StreamOptions
  readonly #keepAliveMs: number
  readonly #gate: AcceptGate | undefined
  #waiting: Socket[] = []
  #isClosed = false
  #error = 0
  readonly #arrivedOne: () => void

  /** `options` of the sockets that it accepts; `keepAliveMs`: 0 for none; `arrived`: a client has. */
  constructor(
    server: Server,
    options: StreamOptions,
    keepAliveMs: number,
    arrived: () => void,
  ) {
    super()
    this.#server = server
    this.#options = options
    this.#keepAliveMs = keepAliveMs
    this.#arrivedOne = arrived
    server.on('connection', socket => this.#arrived(socket))
    server.on('error', error => this.#failed(error))
    this.#gate = acceptGate(server)
    this.#gate?.stop()
  }

  override get state(): number {
    const isReady = this.#waiting.length > 0 || this.#isClosed || this.#error !== 0
    return isReady ? EPOLLIN : 0
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** While it is not watched clients wait in the kernel's queue. */
  override watched(events: number): void {
    if (this.#isClosed) return
    if ((events & EPOLLIN) !== 0) this.#gate?.start()
    else this.#gate?.stop()
  }

  /** What kept the system from accepting a client: a negative errno; 0 for nothing. */
  takeError(): number {
    const error = this.#error
    this.#error = 0
    return error
  }

  accept(): StreamSocket | undefined {
    const socket = this.#waiting.shift()
    if (socket === undefined) return undefined
    const stream = new StreamSocket(socket, this.#options, true)
    stream.resetsAtClose = true
    if (this.#keepAliveMs > 0) stream.keepAlive(this.#keepAliveMs)
    return stream
  }

  /** No one is accepted any more; who waits is reset. */
  shut(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#server.close()
    for (const socket of this.#waiting.splice(0)) reset(socket)
    this.raise(EPOLLIN)
  }

  override close(): void {
    this.watch = undefined
    this.shut()
  }

  #failed(error: Error): void {
    this.#error = -errnoOf(error)
    this.raise(EPOLLIN)
  }

  #arrived(socket: Socket): void {
    this.#arrivedOne()
    // Node throws an error without a listener; who accepts it finds that it is closed.
    socket.on('error', () => {})
    // Asked for now, and remembered by Node: one that is reset meanwhile has none any more.
    void socket.remoteAddress
    if (this.#isClosed || this.#waiting.length >= mostWaiting) return reset(socket)
    this.#waiting.push(socket)
    this.raise(EPOLLIN)
  }
}
