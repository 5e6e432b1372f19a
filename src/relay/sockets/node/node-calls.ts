import { NativeMemory } from '../../../ffi/c-library.ts'
import {
  AF_INET6,
  AF_UNIX,
  IPPROTO_TCP,
  MSG_PEEK,
  MSG_TRUNC,
  SIOCINQ,
  SIOCOUTQ,
  SIOCOUTQNSD,
  SO_ERROR,
  SO_KEEPALIVE,
  SO_LINGER,
  SOCK_DGRAM,
  SOL_SOCKET,
  SHUT_WR,
  TCP_INFO,
  TCP_KEEPIDLE,
} from '../../../ffi/constants.ts'
import { errno } from '../../../ffi/errno.ts'
import { iovec, msghdr, tcpInfo } from '../../../ffi/struct-layout.ts'
import type { Syscalls } from '../../../ffi/syscalls.ts'
import { connectTo } from '../../../util/connect-to.ts'
import { type AddressPort, withoutZone } from '../../../util/ip.ts'
import { readSockaddr, writeSockaddr } from '../../engine/sockaddr.ts'
import { DatagramSocket } from './datagram-socket.ts'
import { Descriptor, EventCounter, ReadyList } from './descriptor.ts'
import { ListeningSocket } from './listening-socket.ts'
import { SendQueues } from './send-queues.ts'
import { StreamSocket, type StreamOptions } from './stream-socket.ts'

/** Where struct epoll_event has its fields: see `StructLayout`. */
export const nodeLayout = { epollEventWords: 3, epollDataWord: 1 } as const

/** Behind the standard streams, as in a process. */
const firstFd = 3
/** An address is the number of its memory, and an offset. */
const memorySize = 2 ** 32
/** Where struct sockaddr_in6 has its scope. */
const scopeAt = 24
const lookMs = 200
/** What a call answers that this layer does not have. */
const unsupported = (): number => -errno.ENOSYS

/** A socket that is yet to be bound or connected. */
class NewSocket extends Descriptor {
  readonly family: number
  resetsAtClose = false

  constructor(family: number) {
    super()
    this.family = family
  }

  override get state(): number {
    return 0
  }

  override close(): void {}
}

/**
 * The system calls of the relay over node:net and node:dgram, for one thread. Numbers, addresses and errors
 * are as the kernel's; what Node can't do answers ENOSYS or ENOPROTOOPT, and who calls does without it.
 */
export class NodeCalls implements Syscalls {
  readonly #memories: (NativeMemory | undefined)[] = []
  readonly #table: (Descriptor | undefined)[] = []
  readonly #free: number[] = []
  /** Zones of link-local addresses, as Node spells them, by the number that stands for them here. */
  readonly #zones = ['']
  readonly #mostUnread: number
  readonly #sendQueues = new SendQueues()
  readonly #deaf = new Set<StreamSocket>()
  /** There is something to be done: for who drives the loop. */
  wake: () => void = () => {}
  /** Milliseconds that the loop would have waited when it was last called; -1: for good. */
  waits = 0

  /** How many clients have come, of all time. */
  arrived = 0

  /** `mostUnread`: bytes of a connection that may wait to be received. */
  constructor(mostUnread: number) {
    this.#mostUnread = mostUnread
  }

  allocate(bytes: number): NativeMemory {
    const memory = new NativeMemory(bytes, () => (this.#memories.length + 1) * memorySize)
    this.#memories.push(memory)
    return memory
  }

  /** How many pieces of memory there have been; see `forget`. */
  get allocated(): number {
    return this.#memories.length
  }

  /** Those after the first `count` are not used any more: who had them has ended. */
  forget(count: number): void {
    this.#memories.fill(undefined, count)
  }

  /** Its number. */
  add(descriptor: Descriptor): number {
    const fd = this.#free.pop() ?? Math.max(this.#table.length, firstFd)
    this.#table[fd] = descriptor
    return fd
  }

  /** What all sockets of connections have in common. */
  streams(isUnix: boolean): StreamOptions {
    const [mostUnread, sendQueues] = [this.#mostUnread, this.#sendQueues]
    return { isUnix, mostUnread, sendQueues, deaf: stream => this.#watchDeaf(stream) }
  }

  socket(domain: number, type: number): number {
    if ((type & 0xf) === SOCK_DGRAM)
      return this.add(DatagramSocket.ofFamily(domain === AF_INET6))
    return this.add(new NewSocket(domain))
  }

  bind = unsupported
  listen = unsupported
  sendmsg = unsupported
  recvmsg = unsupported

  accept(fd: number, address: number): number {
    const listening = this.#table[fd]
    if (!(listening instanceof ListeningSocket)) return -errno.EBADF
    const error = listening.takeError()
    if (error !== 0) return error
    const stream = listening.accept()
    if (stream === undefined) return listening.isClosed ? -errno.EINVAL : -errno.EAGAIN
    const { remoteEnd } = stream
    if (remoteEnd.address === '') {
      stream.close()
      return -errno.ECONNABORTED
    }
    this.#writeEnd(address, remoteEnd)
    return this.add(stream)
  }

  connect(fd: number, address: number, length: number): number {
    const to = this.#readEnd(address, length)
    const before = this.#table[fd]
    if (before instanceof DatagramSocket) return before.connect(to)
    if (!(before instanceof NewSocket)) return -errno.EBADF
    const socket = connectTo(to.address, to.port, {
      allowHalfOpen: true,
      noDelay: true,
      autoSelectFamily: false,
      highWaterMark: this.#mostUnread,
    })
    const stream = new StreamSocket(
      socket,
      this.streams(before.family === AF_UNIX),
      false,
    )
    stream.resetsAtClose = before.resetsAtClose
    this.#table[fd] = stream
    return -errno.EINPROGRESS
  }

  shutdown(fd: number, how: number): number {
    const target = this.#table[fd]
    if (target instanceof ListeningSocket) target.shut()
    if (!(target instanceof StreamSocket) || how !== SHUT_WR) return 0
    return target.finish()
  }

  close(fd: number): number {
    const target = this.#table[fd]
    if (target === undefined) return -errno.EBADF
    this.#table[fd] = undefined
    this.#free.push(fd)
    if (target instanceof StreamSocket) this.#deaf.delete(target)
    if (target instanceof ReadyList)
      for (const one of this.#table) if (one !== undefined) target.forget(one)
    target.close()
    return 0
  }

  read(fd: number, address: number): number {
    const target = this.#table[fd]
    if (!(target instanceof EventCounter)) return -errno.EBADF
    const { memory, offset } = this.#at(address)
    memory.view.setBigUint64(offset, BigInt(target.take()), true)
    return 8
  }

  write(fd: number, address: number, length: number): number {
    const target = this.#table[fd]
    if (target instanceof DatagramSocket) return target.send(this.#bytes(address, length))
    if (!(target instanceof EventCounter)) return -errno.EBADF
    target.add()
    return 8
  }

  recv(fd: number, address: number, length: number, flags: number): number {
    const target = this.#table[fd]
    if (!(target instanceof StreamSocket)) return -errno.EBADF
    if ((flags & MSG_TRUNC) !== 0) return target.discard(length)
    return target.receive(this.#bytes(address, length), (flags & MSG_PEEK) !== 0)
  }

  send(fd: number, address: number, length: number): number {
    const target = this.#table[fd]
    if (!(target instanceof StreamSocket)) return -errno.EBADF
    return target.send(this.#bytes(address, length))
  }

  pipe = unsupported
  splice = unsupported

  recvmmsg(fd: number, headers: number, count: number): number {
    const target = this.#table[fd]
    if (!(target instanceof DatagramSocket)) return -errno.EBADF
    const error = target.takeError()
    if (error !== 0) return -error
    let received = 0
    for (; received < count; received += 1) {
      const datagram = target.take()
      if (datagram === undefined) break
      this.#store(headers + received * msghdr.size, datagram.bytes, datagram.from)
    }
    return received === 0 ? -errno.EAGAIN : received
  }

  sendmmsg(fd: number, headers: number, count: number): number {
    const target = this.#table[fd]
    if (!(target instanceof DatagramSocket)) return -errno.EBADF
    for (let sent = 0; sent < count; sent += 1) {
      const result = this.#sendOne(target, headers + sent * msghdr.size)
      if (result < 0) return sent === 0 ? result : sent
    }
    return count
  }

  getsockname(fd: number, address: number): number {
    return this.#nameOf(fd, address, ({ localEnd }) => localEnd)
  }

  getpeername(fd: number, address: number): number {
    return this.#nameOf(fd, address, ({ remoteEnd }) => remoteEnd)
  }

  getsockopt(fd: number, level: number, name: number, value: number): number {
    const target = this.#table[fd]
    if (!(target instanceof StreamSocket)) return -errno.ENOPROTOOPT
    const { memory, offset } = this.#at(value)
    if (level === SOL_SOCKET && name === SO_ERROR) {
      memory.view.setInt32(offset, target.takeError(), true)
      return 0
    }
    if (level !== IPPROTO_TCP || name !== TCP_INFO) return -errno.ENOPROTOOPT
    memory.bytes.fill(0, offset, offset + tcpInfo.size)
    const since = Math.round(target.sinceReceived)
    memory.view.setUint32(offset + tcpInfo.lastDataReceived, since, true)
    return 0
  }

  setsockopt(fd: number, level: number, name: number, value: number): number {
    const target = this.#table[fd]
    const { memory, offset } = this.#at(value)
    const number = memory.view.getInt32(offset, true)
    if (level === SOL_SOCKET && name === SO_LINGER) {
      if (target instanceof StreamSocket || target instanceof NewSocket)
        target.resetsAtClose = number !== 0
      return 0
    }
    if (!(target instanceof StreamSocket)) return -errno.ENOPROTOOPT
    if (level === IPPROTO_TCP && name === TCP_KEEPIDLE) target.keepAlive(number * 1000)
    const isKnown = level === IPPROTO_TCP || name === SO_KEEPALIVE
    return isKnown ? 0 : -errno.ENOPROTOOPT
  }

  ioctl(fd: number, request: number, argument: number): number {
    const target = this.#table[fd]
    if (!(target instanceof StreamSocket)) return -errno.EBADF
    const { memory, offset } = this.#at(argument)
    const bytes = bytesIn(target, request)
    if (bytes === undefined) return -errno.EINVAL
    memory.view.setInt32(offset, bytes, true)
    return 0
  }

  fcntl = unsupported

  poll = unsupported

  epollCreate(): number {
    return this.add(new ReadyList(() => this.wake()))
  }

  epollCtl(epoll: number, operation: number, fd: number, event: number): number {
    const list = this.#table[epoll]
    const target = this.#table[fd]
    if (!(list instanceof ReadyList) || target === undefined) return -errno.EBADF
    const { memory, offset } = this.#at(event)
    const at = offset / 4
    const { words } = memory
    list.control(
      operation,
      target,
      fd,
      words[at + nodeLayout.epollDataWord + 1] ?? 0,
      words[at] ?? 0,
    )
    return 0
  }

  /** Does not wait: who drives the loop calls it again in time. */
  epollWait(epoll: number, events: number, most: number, ms: number): number {
    const list = this.#table[epoll]
    if (!(list instanceof ReadyList)) return -errno.EBADF
    const { memory, offset } = this.#at(events)
    const count = list.report(most, (index, reported, fd, generation) => {
      const at = offset / 4 + index * nodeLayout.epollEventWords
      memory.words[at] = reported
      memory.words[at + nodeLayout.epollDataWord] = fd
      memory.words[at + nodeLayout.epollDataWord + 1] = generation
    })
    this.waits = count > 0 || !list.isEmpty ? 0 : ms
    return count
  }

  eventfd(): number {
    return this.add(new EventCounter())
  }

  /** Looks for resets that no read reports, while there are sockets that are not read. */
  #watchDeaf(stream: StreamSocket): void {
    if (!stream.isDeaf) return
    if (this.#deaf.size === 0) setTimeout(() => this.#lookForResets(), lookMs).unref()
    this.#deaf.add(stream)
  }

  #lookForResets(): void {
    const deaf = [...this.#deaf]
    this.#deaf.clear()
    for (const stream of deaf) {
      stream.lookForReset()
      this.#watchDeaf(stream)
    }
  }

  #at(address: number): { memory: NativeMemory; offset: number } {
    const memory = this.#memories[Math.floor(address / memorySize) - 1]
    if (memory === undefined) throw new RangeError(`no memory at ${address}`)
    return { memory, offset: address % memorySize }
  }

  #bytes(address: number, length: number): Buffer {
    const { memory, offset } = this.#at(address)
    return memory.bytes.subarray(offset, offset + length)
  }

  #readEnd(address: number, length: number): AddressPort {
    const { memory, offset } = this.#at(address)
    const family = memory.view.getUint16(offset, true)
    if (family !== AF_UNIX) {
      const end = readSockaddr(memory, offset)
      const scope =
        family === AF_INET6 ? memory.view.getUint32(offset + scopeAt, true) : 0
      return { ...end, address: end.address + (this.#zones[scope] ?? '') }
    }
    const path = memory.bytes.toString('utf8', offset + 2, offset + length)
    const name = path.startsWith('\0') ? `@${path.slice(1)}` : path.replace(/\0.*$/s, '')
    return { address: `unix:${name}`, port: 0 }
  }

  #writeEnd(address: number, { address: text, port }: AddressPort): void {
    const { memory, offset } = this.#at(address)
    const withoutIt = withoutZone(text)
    writeSockaddr(memory, offset, withoutIt, port)
    if (withoutIt !== text)
      memory.view.setUint32(
        offset + scopeAt,
        this.#scopeOf(text.slice(withoutIt.length)),
        true,
      )
  }

  #scopeOf(zone: string): number {
    const known = this.#zones.indexOf(zone)
    return known < 0 ? this.#zones.push(zone) - 1 : known
  }

  #nameOf(
    fd: number,
    address: number,
    endOf: (stream: StreamSocket) => AddressPort,
  ): number {
    const stream = this.#table[fd]
    if (!(stream instanceof StreamSocket)) return -errno.EBADF
    const end = endOf(stream)
    if (end.address === '') return -errno.ENOTCONN
    this.#writeEnd(address, end)
    return 0
  }

  /** Into what a struct mmsghdr has for it. */
  #store(header: number, bytes: Buffer, from: AddressPort): void {
    const { memory, offset } = this.#at(header)
    const { view } = memory
    const name = Number(view.getBigUint64(offset + msghdr.name, true))
    const iov = this.#at(Number(view.getBigUint64(offset + msghdr.iov, true)))
    const base = Number(iov.memory.view.getBigUint64(iov.offset + iovec.base, true))
    const data = this.#at(base)
    bytes.copy(data.memory.bytes, data.offset)
    view.setUint32(offset + msghdr.moved, bytes.length, true)
    view.setUint32(offset + msghdr.controlLength, 0, true)
    if (name !== 0) this.#writeEnd(name, from)
  }

  /** What a struct mmsghdr has; several pieces are as many datagrams (udp(7), UDP_SEGMENT). */
  #sendOne(socket: DatagramSocket, header: number): number {
    const { memory, offset } = this.#at(header)
    const { view } = memory
    const name = Number(view.getBigUint64(offset + msghdr.name, true))
    const length = view.getUint32(offset + msghdr.nameLength, true)
    const to = name === 0 ? undefined : this.#readEnd(name, length)
    const pieces = view.getUint32(offset + msghdr.iovLength, true)
    let at = Number(view.getBigUint64(offset + msghdr.iov, true))
    for (let piece = 0; piece < pieces; piece += 1, at += iovec.size) {
      const iov = this.#at(at)
      const base = Number(iov.memory.view.getBigUint64(iov.offset + iovec.base, true))
      const size = Number(iov.memory.view.getBigUint64(iov.offset + iovec.length, true))
      const bytes = this.#bytes(base, size)
      const result = to === undefined ? socket.send(bytes) : socket.sendTo(bytes, to)
      if (result < 0) return result
    }
    return 0
  }
}

const bytesIn = (stream: StreamSocket, request: number): number | undefined => {
  if (request === SIOCINQ) return stream.unread
  if (request === SIOCOUTQ) return stream.unacknowledged
  return request === SIOCOUTQNSD ? stream.unwritten : undefined
}
