import { createSocket } from 'node:dgram'
import { performance } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  AF_INET,
  AF_INET6,
  EPOLLIN,
  MSG_DONTWAIT,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
} from '../../src/ffi/constants.ts'
import { errno, errnoName } from '../../src/ffi/errno.ts'
import { sockaddrSize } from '../../src/ffi/struct-layout.ts'
import type { Syscalls } from '../../src/ffi/syscalls.ts'
import { EventLoop } from '../../src/relay/engine/event-loop.ts'
import { writeSockaddr } from '../../src/relay/engine/sockaddr.ts'
import { ErrorCounts, errorName, type Load } from './load.ts'
import type { UdpEchoes } from './question.ts'
import { MessageBatch, type NativeCalls } from '../native-calls.ts'
import type { Endpoint } from '../services.ts'

/** How often losses are looked for. */
const sweepMs = 50
/** A datagram that has not come back for so many sweeps is lost. */
const lostAfterSweeps = 10
/** The turn, the slot and the flow; the rest is the same in every turn. */
const headerBytes = 8

/** A socket, with datagrams to echo. What can't be sent does not come back, and counts as lost. */
interface Wire {
  /** Room for the datagrams of a flow, one after the other. */
  readonly datagrams: Buffer
  /** The one that begins there: with the next `flush` at the latest. */
  send(at: number): void
  flush(): void
  close(): Promise<void>
}

/** What a flow makes of its wire: what can be done once it carries, and what came by it. */
interface WireUser {
  onReady(): void
  onDatagram(from: Buffer, at: number, length: number): void
}

type OpenWire = (user: WireUser) => Wire

/**
 * Datagrams to an echo, over so many flows with a socket each, and so many of each on
 * their way at any time: the closed loop keeps queues short, so a loss is the target's
 * doing. A lost datagram is counted and replaced.
 */
class UdpEchoesLoad implements Load {
  readonly errors: ErrorCounts
  readonly #flows: readonly Flow[]
  readonly #sweeper: NodeJS.Timeout
  readonly #end: () => void

  /** @param end - of what all wires share */
  constructor(plan: UdpEchoes, errors: ErrorCounts, open: OpenWire, end: () => void) {
    if (plan.bytes < headerBytes)
      throw new Error(`datagrams of ${plan.bytes} bytes: at least ${headerBytes}`)
    this.errors = errors
    this.#end = end
    this.#flows = Array.from(
      { length: plan.flows },
      (_, index) => new Flow(plan, index, errors, open),
    )
    this.#sweeper = setInterval(() => {
      for (const flow of this.#flows) flow.replaceLost()
    }, sweepMs)
  }

  done(): number {
    return this.#flows.reduce((sum, { echoes }) => sum + echoes, 0)
  }

  async stop(): Promise<void> {
    clearInterval(this.#sweeper)
    await Promise.all(this.#flows.map(flow => flow.close()))
    this.#end()
    // libuv lets go of a socket at the end of a turn, after what is immediate in it.
    await nextTurn()
    await nextTurn()
  }
}

class Flow implements WireUser {
  echoes = 0
  readonly #wire: Wire
  readonly #bytes: number
  readonly #window: number
  readonly #errors: ErrorCounts
  readonly #sentInSweep: Uint32Array
  #isReady = false
  #sweep = 0

  constructor(
    { bytes, window }: UdpEchoes,
    index: number,
    errors: ErrorCounts,
    open: OpenWire,
  ) {
    this.#bytes = bytes
    this.#window = window
    this.#errors = errors
    this.#sentInSweep = new Uint32Array(window)
    this.#wire = open(this)
    for (let slot = 0; slot < window; slot += 1)
      newDatagram(bytes, index, slot).copy(this.#wire.datagrams, slot * bytes)
  }

  onReady(): void {
    this.#isReady = true
    for (let slot = 0; slot < this.#window; slot += 1) this.#send(slot)
    this.#wire.flush()
  }

  /** It is checked, and goes out again. */
  onDatagram(from: Buffer, at: number, length: number): void {
    const slot = length < headerBytes ? this.#window : from.readUInt16BE(at + 4)
    if (slot >= this.#window || length !== this.#bytes)
      return this.#errors.add('wrong response')
    const own = this.#wire.datagrams
    const start = slot * length
    const end = start + length
    if (own.compare(from, at, at + length, start, end) !== 0) {
      const isEarlier = own.compare(from, at + 4, at + length, start + 4, end) === 0
      return this.#errors.add(isEarlier ? 'late or twice' : 'wrong response')
    }
    this.echoes += 1
    this.#send(slot)
  }

  replaceLost(): void {
    if (!this.#isReady) return
    this.#sweep += 1
    for (let slot = 0; slot < this.#window; slot += 1) {
      if (this.#sweep - (this.#sentInSweep[slot] ?? 0) < lostAfterSweeps) continue
      this.#errors.add('lost')
      this.#send(slot)
    }
    this.#wire.flush()
  }

  close(): Promise<void> {
    return this.#wire.close()
  }

  #send(slot: number): void {
    const { datagrams } = this.#wire
    const at = slot * this.#bytes
    datagrams.writeUInt32BE((datagrams.readUInt32BE(at) + 1) >>> 0, at)
    this.#sentInSweep[slot] = this.#sweep
    this.#wire.send(at)
  }
}

/** The first four bytes are for the turn. */
const newDatagram = (bytes: number, flow: number, slot: number): Buffer => {
  const datagram = Buffer.alloc(bytes, `flow ${flow} slot ${slot} `)
  datagram.writeUInt32BE(0)
  datagram.writeUInt16BE(slot, 4)
  datagram.writeUInt16BE(flow % 65_536, 6)
  return datagram
}

/** By sockets of Node's, a datagram in a call. */
export const udpEchoes = (plan: UdpEchoes): Load => {
  const errors = new ErrorCounts()
  const open = (user: WireUser) => nodeWire(plan, user, errors)
  return new UdpEchoesLoad(plan, errors, open, () => {})
}

const nodeWire = (plan: UdpEchoes, user: WireUser, errors: ErrorCounts): Wire => {
  const { to, bytes, window, unconnected } = plan
  const datagrams = Buffer.alloc(bytes * window)
  const socket = createSocket(to.address.includes(':') ? 'udp6' : 'udp4')
  let isClosed = false
  socket.on('error', error => {
    if (!isClosed) errors.add(errorName(error))
  })
  socket.on('message', message => user.onDatagram(message, 0, message.length))
  socket.once(unconnected ? 'listening' : 'connect', () => {
    if (!isClosed) user.onReady()
  })
  if (unconnected) socket.bind()
  // Connected once, so that no datagram needs an address looked at.
  else socket.connect(to.port, to.address)
  return {
    datagrams,
    send: at => {
      const datagram = datagrams.subarray(at, at + bytes)
      if (unconnected) socket.send(datagram, to.port, to.address)
      else socket.send(datagram)
    },
    flush: () => {},
    close: () => {
      isClosed = true
      return new Promise<void>(resolve => {
        socket.close(resolve)
      })
    },
  }
}

const batch = 64
/** Node's own loop has timers and questions to look after. */
const turnMs = 1

/** Many datagrams in a call, for targets that a generator of Node's sockets can't keep busy. */
export const nativeUdpEchoes = (
  plan: UdpEchoes,
  { calls, layout }: NativeCalls,
): Load => {
  const errors = new ErrorCounts()
  const loop = new EventLoop(calls, layout, () => performance.now())
  const source = {
    ready: (wire: NativeWire) => wire.receive(),
    failed: (_wire: NativeWire, error: unknown) => errors.add(errorName(error)),
  }
  const shared = batchesOf(calls, plan)
  const wires: NativeWire[] = []
  const open = (user: WireUser): Wire => {
    const wire = new NativeWire(plan, shared, user, errors)
    if (wire.fd >= 0) {
      loop.add(wire.fd, source, wire, EPOLLIN)
      wires.push(wire)
    }
    return wire
  }
  const takeTurn = (): void => {
    loop.turn(turnMs)
    turn = setImmediate(takeTurn)
  }
  const load = new UdpEchoesLoad(plan, errors, open, () => {
    clearImmediate(turn)
    loop.close()
  })
  for (const { user } of wires) user.onReady()
  let turn = setImmediate(takeTurn)
  return load
}

/** What wires share: only one of them is at work at a time. */
const batchesOf = (calls: Syscalls, { bytes, to, ...plan }: UdpEchoes) => {
  const unconnected = plan.unconnected === true
  // A byte more than is expected tells a longer datagram.
  const room = bytes + 1
  const arrived = calls.allocate(batch * room)
  const received = new MessageBatch(calls, batch, unconnected)
  for (let at = 0; at < batch; at += 1)
    received.put(at, arrived.address + at * room, room)
  const sent = new MessageBatch(calls, batch, unconnected)
  if (unconnected) sent.sendTo(to.address, to.port)
  return { calls, room, arrived, received, sent, unconnected }
}

class NativeWire implements Wire {
  readonly user: WireUser
  readonly datagrams: Buffer
  /** Negative when there is none. */
  readonly fd: number
  readonly #shared: ReturnType<typeof batchesOf>
  readonly #address: number
  readonly #bytes: number
  readonly #errors: ErrorCounts
  #toSend = 0

  constructor(
    { to, bytes, window }: UdpEchoes,
    shared: ReturnType<typeof batchesOf>,
    user: WireUser,
    errors: ErrorCounts,
  ) {
    const { calls, unconnected } = shared
    this.user = user
    this.#shared = shared
    this.#bytes = bytes
    this.#errors = errors
    const memory = calls.allocate(bytes * window)
    this.datagrams = memory.bytes
    this.#address = memory.address
    this.fd = this.#result(unconnected ? opened(calls, to) : connected(calls, to))
  }

  receive(): void {
    const { calls, received, arrived, room, unconnected } = this.#shared
    const count = this.#result(
      calls.recvmmsg(this.fd, received.address, received.size, MSG_DONTWAIT),
    )
    for (let at = 0; at < count; at += 1) {
      if (unconnected) received.forgetName(at)
      this.user.onDatagram(arrived.bytes, at * room, received.moved(at))
    }
    this.flush()
  }

  send(at: number): void {
    const { sent } = this.#shared
    sent.put(this.#toSend, this.#address + at, this.#bytes)
    this.#toSend += 1
    if (this.#toSend === sent.size) this.flush()
  }

  flush(): void {
    if (this.#toSend === 0) return
    const { calls, sent } = this.#shared
    this.#result(calls.sendmmsg(this.fd, sent.address, this.#toSend, MSG_DONTWAIT))
    this.#toSend = 0
  }

  async close(): Promise<void> {
    if (this.fd >= 0) this.#shared.calls.close(this.fd)
  }

  #result(result: number): number {
    if (result < 0 && result !== -errno.EAGAIN && result !== -errno.EINTR)
      this.#errors.add(errnoName(result))
    return result
  }
}

/** A socket, or a negative errno. */
const opened = (calls: Syscalls, to: Endpoint): number => {
  const family = to.address.includes(':') ? AF_INET6 : AF_INET
  return calls.socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
}

/** One that knows no other address. */
const connected = (calls: Syscalls, to: Endpoint): number => {
  const fd = opened(calls, to)
  if (fd < 0) return fd
  const address = calls.allocate(sockaddrSize)
  const length = writeSockaddr(address, 0, to.address, to.port)
  const result = calls.connect(fd, address.address, length)
  if (result === 0) return fd
  calls.close(fd)
  return result
}
