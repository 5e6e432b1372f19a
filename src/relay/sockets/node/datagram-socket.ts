import { createSocket, type Socket, type SocketOptions } from 'node:dgram'
import { EPOLLERR, EPOLLIN } from '../../../ffi/constants.ts'
import { errno, errnoOf } from '../../../ffi/errno.ts'
import type { AddressPort } from '../../../util/ip.ts'
import { Descriptor } from './descriptor.ts'

/** Room for a burst at a listening socket, and at that of a flow; the next are lost, as in the kernel. */
const mostUnread = { ofListener: 4 << 20, ofFlow: 256 << 10 } as const
/** What one takes beside its bytes. */
const perDatagram = 512
/** What one datagram takes over IPv4 and IPv6 (RFC 768). */
const mostBytes = { udp4: 65_507, udp6: 65_527 } as const

/** The lookup of sockets that are only ever given addresses: node:dgram asks for each datagram. */
export const literalLookup: NonNullable<SocketOptions['lookup']> = (
  address,
  options,
  callback,
) => {
  const family = typeof options === 'object' && options.family === 6 ? 6 : 4
  callback(null, address, family)
}

export interface Received {
  readonly bytes: Buffer
  readonly from: AddressPort
}

/** A socket of node:dgram as system calls see one. */
export class DatagramSocket extends Descriptor {
  readonly #socket: Socket
  #received: Received[] = []
  #unread = 0
  #error = 0
  readonly #type: 'udp4' | 'udp6'
  readonly #most: number
  #isClosed = false

  constructor(
    socket: Socket,
    type: 'udp4' | 'udp6',
    most: number = mostUnread.ofListener,
  ) {
    super()
    this.#most = most
    this.#socket = socket
    this.#type = type
    socket.on('message', (bytes, { address, port }) =>
      this.#take({ bytes, from: { address, port } }),
    )
    socket.on('error', error => this.#failed(error))
  }

  /** One that is yet to be bound. */
  static ofFamily(isIpv6: boolean): DatagramSocket {
    const type = isIpv6 ? 'udp6' : 'udp4'
    return new DatagramSocket(
      createSocket({ type, lookup: literalLookup }),
      type,
      mostUnread.ofFlow,
    )
  }

  override get state(): number {
    return (
      (this.#received.length > 0 ? EPOLLIN : 0) |
      (this.#error === 0 ? 0 : EPOLLIN | EPOLLERR)
    )
  }

  /** With literal addresses both are done within the call, and only their events come later. */
  connect({ address, port }: AddressPort): number {
    const socket = this.#socket
    socket.bind({ port: 0, exclusive: true })
    const error = this.takeError()
    if (error !== 0) return -error
    socket.connect(port, address)
    if (isConnected(socket)) return 0
    // Its error comes later, and is not to be taken for that of a datagram.
    socket.removeAllListeners('error').on('error', () => {})
    return -errno.ENETUNREACH
  }

  takeError(): number {
    const error = this.#error
    this.#error = 0
    return error
  }

  take(): Received | undefined {
    const received = this.#received.shift()
    if (received !== undefined) this.#unread -= received.bytes.length + perDatagram
    return received
  }

  /** To whom it is connected to. Its length, or what is known of an earlier one: a negative errno. */
  send(bytes: Buffer): number {
    const error = this.takeError()
    if (error !== 0) return -error
    if (bytes.length > mostBytes[this.#type]) return -errno.EMSGSIZE
    // What it returns for one that is refused comes too late for its caller.
    this.#socket.send(Buffer.from(bytes), failure => {
      if (failure !== null) this.#failed(failure)
    })
    return bytes.length
  }

  /** To one of many: what becomes of it says nothing of the socket, and it is lost as in the network. */
  sendTo(bytes: Buffer, { address, port }: AddressPort): number {
    if (bytes.length > mostBytes[this.#type]) return -errno.EMSGSIZE
    this.#socket.send(Buffer.from(bytes), port, address, () => {})
    return bytes.length
  }

  override close(): void {
    this.watch = undefined
    this.#isClosed = true
    this.#received = []
    this.#socket.removeAllListeners('message')
    this.#socket.close()
  }

  #take(received: Received): void {
    if (this.#unread >= this.#most) return
    this.#received.push(received)
    this.#unread += received.bytes.length + perDatagram
    this.raise(EPOLLIN)
  }

  #failed(error: Error): void {
    if (this.#isClosed) return
    this.#error = errnoOf(error)
    this.raise(EPOLLIN | EPOLLERR)
  }
}

const isConnected = (socket: Socket): boolean => {
  try {
    socket.remoteAddress()
    return true
  } catch {
    return false
  }
}
