import type { Socket } from 'node:net'
import {
  EPOLLERR,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLRDHUP,
} from '../../../ffi/constants.ts'
import { errno, errnoOf } from '../../../ffi/errno.ts'
import { type AddressPort, unmapped, withoutZone } from '../../../util/ip.ts'
import { unixPeer } from '../../../util/unix-address.ts'
import { Descriptor } from './descriptor.ts'
import type { SendQueues } from './send-queues.ts'
import { confirmEnd, mayBeReset, reset, wasReset } from './reset.ts'

const broken = EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLRDHUP

/** A socket of node:net as system calls see one. */
export class StreamSocket extends Descriptor {
  readonly #socket: Socket
  readonly #options: StreamOptions
  /** What has come and was not received yet. */
  #chunks: Buffer[] = []
  #unread = 0
  #isConnected: boolean
  #hasEnded = false
  /** SO_ERROR: taken by who asks. */
  #error = 0
  #isBroken = false
  #needsDrain = false
  #isFinished = false
  #readAtFinish = 0
  #readAt = performance.now()
  /** Since when the kernel has had all that was written; 0: unknown; Infinity: the peer has it, too. */
  #heldSince = 0
  /** SO_LINGER of 0 s. */
  resetsAtClose = false

  /** `socket` is paused where it is connected. */
  constructor(socket: Socket, options: StreamOptions, isConnected: boolean) {
    super()
    this.#socket = socket
    this.#options = options
    this.#isConnected = isConnected
    socket.on('connect', () => this.#connected())
    socket.on('data', chunk => this.#received(chunk))
    socket.on('end', () => this.#ended())
    socket.on('error', error => this.#failed(error))
    socket.on('drain', () => this.#drained())
    socket.on('finish', () => this.#written())
    if (isConnected) socket.resume()
  }

  override get state(): number {
    const hasInput = this.#unread > 0 || this.#hasEnded || this.#isBroken
    const hasRoom = this.#isConnected && !this.#needsDrain
    return (
      (hasInput ? EPOLLIN : 0) |
      (this.#hasEnded ? EPOLLRDHUP : 0) |
      (hasRoom ? EPOLLOUT : 0) |
      (this.#hasEnded && this.#isFinished ? EPOLLHUP : 0) |
      (this.#isBroken ? broken : 0)
    )
  }

  get unread(): number {
    return this.#unread
  }

  /** Bytes that its peer may not have yet. */
  get unacknowledged(): number {
    const { writableLength, destroyed } = this.#socket
    if (destroyed) return 0
    if (writableLength > 0) return writableLength
    // Else each look at an idle connection would be a search in the table.
    if (this.#heldSince === Infinity) return 0
    this.#heldSince ||= performance.now()
    const left = this.#options.sendQueues.left(this.#socket, this.#heldSince)
    if (left === 0) this.#heldSince = Infinity
    return left
  }

  /** Bytes, or a FIN, that the kernel has not taken. */
  get unwritten(): number {
    const { writableLength, writableFinished, destroyed } = this.#socket
    if (destroyed) return 0
    return this.#isFinished && !writableFinished
      ? Math.max(writableLength, 1)
      : writableLength
  }

  /** Milliseconds since something came. */
  get sinceReceived(): number {
    return performance.now() - this.#readAt
  }

  get localEnd(): AddressPort {
    return this.#end(this.#socket.localAddress, this.#socket.localPort)
  }

  get remoteEnd(): AddressPort {
    return this.#end(this.#socket.remoteAddress, this.#socket.remotePort)
  }

  /**
   * Of a socket that is not read a reset is not told. Whether it may have been: such are to be
   * looked after from time to time.
   */
  get isDeaf(): boolean {
    const { destroyed } = this.#socket
    const isUnread = this.#hasEnded
      ? !this.#isFinished
      : this.#unread >= this.#options.mostUnread
    return isUnread && !destroyed && !this.#isBroken
  }

  /** Looks whether it was reset. */
  lookForReset(): void {
    if (!this.isDeaf || !wasReset(this.#socket)) return
    // What it has sent before is still to be read, and its error after that.
    if (this.#hasEnded) this.#break(errno.ECONNRESET)
    else this.raise(broken)
  }

  takeError(): number {
    const error = this.#error
    this.#error = 0
    return error
  }

  receive(to: Buffer, isPeek: boolean): number {
    if (this.#unread === 0) {
      const error = this.takeError()
      if (error !== 0) return -error
      return this.#hasEnded || this.#isBroken ? 0 : -errno.EAGAIN
    }
    let count = 0
    for (const chunk of this.#chunks) {
      count += chunk.copy(to, count)
      if (count === to.length) break
    }
    if (!isPeek) this.discard(count)
    return count
  }

  /** Takes what was peeked at. */
  discard(most: number): number {
    const count = Math.min(most, this.#unread)
    let left = count
    while (left > 0) {
      const [chunk] = this.#chunks
      if (chunk === undefined) break
      if (chunk.length > left) this.#chunks[0] = chunk.subarray(left)
      else this.#chunks.shift()
      left -= Math.min(left, chunk.length)
    }
    const wasFull = this.#unread >= this.#options.mostUnread
    this.#unread -= count
    if (wasFull && this.#unread < this.#options.mostUnread) this.#socket.resume()
    return count
  }

  /** All of it, or -EAGAIN. */
  send(bytes: Buffer): number {
    if (this.#isBroken) return -(this.takeError() || errno.EPIPE)
    if (this.#socket.destroyed || this.#isFinished) return -errno.EPIPE
    if (this.#needsDrain || !this.#isConnected) return -errno.EAGAIN
    // Node keeps what the kernel does not take, and the memory is the next one's.
    this.#needsDrain = !this.#socket.write(Buffer.from(bytes))
    // A table that is read from now on, for whomever, tells of this one, too.
    this.#heldSince = this.#socket.writableLength === 0 ? performance.now() : 0
    return bytes.length
  }

  finish(): number {
    if (this.#socket.destroyed) return -errno.ENOTCONN
    this.#isFinished = true
    this.#readAtFinish = this.#socket.bytesRead
    // A FIN behind data that is stuck would be in the way of a reset later on.
    if (this.#socket.writableLength === 0) this.#socket.end()
    else this.#socket.write(nothing, () => this.#socket.end())
    return 0
  }

  keepAlive(ms: number): void {
    this.#socket.setKeepAlive(true, ms)
  }

  override close(): void {
    const socket = this.#socket
    this.watch = undefined
    this.#chunks = []
    for (const event of ['connect', 'data', 'end', 'drain', 'finish'])
      socket.removeAllListeners(event)
    if (!this.#isConnected) return void socket.destroy()
    if (this.resetsAtClose) return reset(socket)
    if (socket.destroyed) return
    socket.destroySoon()
  }

  #connected(): void {
    this.#isConnected = true
    this.raise(EPOLLOUT)
  }

  #received(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#unread += chunk.length
    this.#readAt = performance.now()
    if (this.#unread >= this.#options.mostUnread) {
      this.#socket.pause()
      this.#options.deaf(this)
    }
    this.raise(EPOLLIN)
  }

  #ended(): void {
    const socket = this.#socket
    if (wasReset(socket)) return this.#break(errno.ECONNRESET)
    const hasMoved = socket.bytesRead > this.#readAtFinish
    const ended = (): void => {
      this.#hasEnded = true
      this.#options.deaf(this)
      this.raise(this.state & ~EPOLLOUT)
    }
    if (mayBeReset(socket, hasMoved)) confirmEnd(socket, ended)
    else ended()
  }

  #failed(error: Error): void {
    this.#break(errnoOf(error))
  }

  #break(error: number): void {
    this.#error = error
    this.#isBroken = true
    this.raise(broken | EPOLLOUT)
  }

  #written(): void {
    if (this.#hasEnded) this.raise(EPOLLHUP)
  }

  #drained(): void {
    this.#needsDrain = false
    this.raise(EPOLLOUT)
  }

  #end(address = '', port = 0): AddressPort {
    if (this.#options.isUnix) return { address: unixPeer, port: 0 }
    return { address: withoutZone(unmapped(address)), port }
  }
}

export interface StreamOptions {
  readonly isUnix: boolean
  /** Bytes that may wait to be received. */
  readonly mostUnread: number
  readonly sendQueues: SendQueues
  /** From now on it does not notice that it is reset. */
  readonly deaf: (stream: StreamSocket) => void
}

const nothing = Buffer.alloc(0)
