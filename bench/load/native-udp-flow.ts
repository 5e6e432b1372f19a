import type { ErrorCounts } from './load.ts'
import {
  headerBytes,
  lostAfterSweeps,
  newDatagram,
  type UdpFlowPlan,
} from './udp-flow.ts'
import type { MessageBatch } from '../message-batch.ts'
import {
  AF_INET,
  AF_INET6,
  errno,
  errnoName,
  MSG_DONTWAIT,
  type NativeMemory,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  sockaddrSize,
  type Syscalls,
  writeSockaddr,
} from '../native-calls.ts'

/** What flows share: only one of them is at work at a time. */
export interface FlowMemory {
  readonly calls: Syscalls
  /** Room of `room` bytes for each message of `received`. */
  readonly arrived: NativeMemory
  readonly room: number
  readonly received: MessageBatch
  /** With `to` in it where they are not connected. */
  readonly sent: MessageBatch
  readonly unconnected: boolean
}

/** As `UdpFlow`, with many datagrams in a system call. */
export class NativeUdpFlow {
  echoes = 0
  /** Negative when there is none. */
  readonly fd: number
  readonly #memory: FlowMemory
  readonly #bytes: number
  readonly #window: number
  readonly #errors: ErrorCounts
  /** The datagrams of all slots, one after the other. */
  readonly #datagrams: NativeMemory
  readonly #sentInSweep: Uint32Array
  #sweep = 0
  #toSend = 0

  constructor(plan: UdpFlowPlan, memory: FlowMemory, errors: ErrorCounts) {
    const { to, index, bytes, window } = plan
    this.#memory = memory
    this.#bytes = bytes
    this.#window = window
    this.#errors = errors
    this.#sentInSweep = new Uint32Array(window)
    this.#datagrams = memory.calls.allocate(bytes * window)
    for (let slot = 0; slot < window; slot += 1)
      newDatagram(bytes, index, slot).copy(this.#datagrams.bytes, slot * bytes)
    const { calls, unconnected } = memory
    this.fd = this.#result(unconnected ? opened(calls, to) : connected(calls, to))
  }

  start(): void {
    for (let slot = 0; slot < this.#window; slot += 1) this.#send(slot)
    this.#flush()
  }

  /** Datagrams have come back: each is checked, and goes out again. */
  receive(): void {
    const { calls, received, arrived, room, unconnected } = this.#memory
    const count = this.#result(
      calls.recvmmsg(this.fd, received.address, received.size, MSG_DONTWAIT),
    )
    for (let at = 0; at < count; at += 1) {
      if (unconnected) received.forgetName(at)
      this.#cameBack(arrived.bytes, at * room, received.moved(at))
    }
    this.#flush()
  }

  replaceLost(): void {
    this.#sweep += 1
    for (let slot = 0; slot < this.#window; slot += 1) {
      if (this.#sweep - (this.#sentInSweep[slot] ?? 0) < lostAfterSweeps) continue
      this.#errors.add('lost')
      this.#send(slot)
    }
    this.#flush()
  }

  close(): void {
    if (this.fd >= 0) this.#memory.calls.close(this.fd)
  }

  #cameBack(from: Buffer, at: number, length: number): void {
    const slot = length < headerBytes ? this.#window : from.readUInt16BE(at + 4)
    if (slot >= this.#window || length !== this.#bytes)
      return this.#errors.add('wrong response')
    const { bytes } = this.#datagrams
    const own = slot * length
    if (bytes.compare(from, at, at + length, own, own + length) !== 0) {
      const isEarlier =
        bytes.compare(from, at + 4, at + length, own + 4, own + length) === 0
      return this.#errors.add(isEarlier ? 'late or twice' : 'wrong response')
    }
    this.echoes += 1
    this.#send(slot)
  }

  /** With the next `#flush`, or at once when there is no more room. */
  #send(slot: number): void {
    const { sent } = this.#memory
    const at = slot * this.#bytes
    const { bytes, address } = this.#datagrams
    bytes.writeUInt32BE((bytes.readUInt32BE(at) + 1) >>> 0, at)
    this.#sentInSweep[slot] = this.#sweep
    sent.put(this.#toSend, address + at, this.#bytes)
    this.#toSend += 1
    if (this.#toSend === sent.size) this.#flush()
  }

  /** What can't be sent does not come back, and counts as lost. */
  #flush(): void {
    if (this.#toSend === 0) return
    const { calls, sent } = this.#memory
    this.#result(calls.sendmmsg(this.fd, sent.address, this.#toSend, MSG_DONTWAIT))
    this.#toSend = 0
  }

  #result(result: number): number {
    if (result < 0 && result !== -errno.EAGAIN && result !== -errno.EINTR)
      this.#errors.add(errnoName(result))
    return result
  }
}

/** A socket, or a negative errno. */
const opened = (calls: Syscalls, to: UdpFlowPlan['to']): number => {
  const family = to.address.includes(':') ? AF_INET6 : AF_INET
  return calls.socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
}

/** One that knows no other address. */
const connected = (calls: Syscalls, to: UdpFlowPlan['to']): number => {
  const fd = opened(calls, to)
  if (fd < 0) return fd
  const address = calls.allocate(sockaddrSize)
  const length = writeSockaddr(address, 0, to.address, to.port)
  const result = calls.connect(fd, address.address, length)
  if (result === 0) return fd
  calls.close(fd)
  return result
}
