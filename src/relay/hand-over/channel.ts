import { randomBytes, timingSafeEqual } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import {
  AF_UNIX,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_SEQPACKET,
} from '../../ffi/constants.ts'
import { errno, systemError } from '../../ffi/errno.ts'
import { mostSockaddrBytes } from '../../ffi/struct-layout.ts'
import type { Syscalls } from '../../ffi/syscalls.ts'
import { type Clock, systemClock } from '../../util/clock.ts'
import { GrowingBytes } from '../../util/growing-bytes.ts'
import { Turns } from '../../util/turns.ts'
import { errorOf, messageOf, type UsherError } from '../../util/usher-error.ts'
import { writeSockaddr } from '../engine/sockaddr.ts'
import {
  handOverFault,
  mostRecordFds,
  mostRecordText,
  type RecordPart,
  RecordSocket,
} from './record-socket.ts'

/**
 * How one running Usher gives descriptors to its successor: messages of JSON with descriptors
 * beside it, over a unix socket (SCM_RIGHTS). A message is sent as records, and each is
 * acknowledged before the next one. So no more than one is ever under way, and neither the
 * limit on descriptors in flight (ETOOMANYREFS, unix(7)) nor a full buffer is reached.
 */
export interface Message {
  /** Of JSON. */
  readonly value: unknown
  readonly fds: readonly number[]
}

/** What a message may have, and what may wait to be received: the other side is not trusted with our memory. */
interface Bounds {
  readonly bytes: number
  readonly fds: number
}

const usualBounds: Bounds = { bytes: 64 * 2 ** 20, fds: 65_536 }
/** Of a peer that has not shown the token yet. */
const strangersBounds: Bounds = { bytes: 256, fds: 0 }
const mostWaiting = 64
const usualMs = 10_000

const pauseMs = 1
/** So soon after the last news the next is waited for in the kernel: a timer would be late. */
const eagerMs = 20

const flags = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC
/** Peers that are asked for the token at the same time. */
const mostCandidates = 8
const backlog = 64
const tokenBytes = 16

/** What `look` has found, or undefined when that takes longer than `ms`. */
const poll = async <T>(
  clock: Clock,
  ms: number,
  look: () => T | undefined,
  pause = (): Promise<void> => timer(clock),
): Promise<T | undefined> => {
  const began = clock.now()
  for (;;) {
    const found = look()
    if (found !== undefined) return found
    if (clock.now() - began >= ms) return undefined
    await pause()
  }
}

const timer = (clock: Clock): Promise<void> =>
  new Promise(resolve => void clock.setTimeout(resolve, pauseMs))

interface Waiting {
  readonly message: Message
  readonly bytes: number
}

/**
 * The connection of two processes. Each may send while the other does. After a failure it is
 * closed: what of a message has arrived by then is of no use, and is closed by who received it.
 */
export class Channel {
  /** By the kernel (SO_PEERCRED). */
  readonly peer: { readonly pid: number; readonly uid: number }
  readonly #socket: RecordSocket
  readonly #clock: Clock
  #bounds = strangersBounds
  readonly #turns = new Turns()
  readonly #inbox: Waiting[] = []
  /** The message that is arriving. */
  #text = new GrowingBytes(usualBounds.bytes)
  #fds: number[] = []
  /** What has arrived and was not received yet, with that. */
  #heldBytes = 0
  #heldFds = 0
  /** Records of ours that the other side is yet to acknowledge: none or one. */
  #unacknowledged = 0
  #owesAck = false
  #newsAt = -Infinity
  #wasLeft = false
  /** Why there is no more to come; undefined while there is. */
  #end: 'gone' | Error | undefined

  constructor(socket: RecordSocket, peer: Channel['peer'], clock: Clock) {
    this.#socket = socket
    this.peer = peer
    this.#clock = clock
  }

  /**
   * Resolves when the other process has all of it. Rejects when the channel is closed, by
   * whichever side, or when a record is not acknowledged within `ms`. The descriptors stay the
   * caller's; they may be closed as soon as this has settled.
   */
  send(value: unknown, fds: readonly number[] = [], ms = usualMs): Promise<void> {
    return this.#turns.take(() => this.#send(value, fds, ms))
  }

  /**
   * The next message; its descriptors are the caller's from then on. Undefined: there is none
   * any more, as the other side has closed its end or has died (`wasLeft`), be it amid a message. Rejects
   * after `ms`, and then may be called again; and on what can't be understood or is cut off.
   */
  async receive(ms = usualMs): Promise<Message | undefined> {
    const found = await this.#poll(ms, () => this.#inbox.shift() ?? this.#end)
    if (found === undefined)
      throw handOverFault(`the other Usher has said nothing for ${ms} ms`)
    if (found === 'gone') return undefined
    if (found instanceof Error) throw found
    this.#heldBytes -= found.bytes
    this.#heldFds -= found.message.fds.length
    return found.message
  }

  /** Closes what came with a message that is of no use. */
  drop({ fds }: Message): void {
    this.#socket.closeAll(fds)
  }

  /** The other side has closed it, and goes on: what it had sent is not ours if it has not said so. */
  get wasLeft(): boolean {
    return this.#wasLeft
  }

  /** The other side has shown who it is: before that it may send no more than a token. */
  trust(): void {
    this.#bounds = usualBounds
  }

  close(): void {
    this.#fail(handOverFault('the way to the other Usher was closed by this one'))
    for (const { message } of this.#inbox.splice(0)) this.#socket.closeAll(message.fds)
  }

  async #send(value: unknown, fds: readonly number[], ms: number): Promise<void> {
    const json: string | undefined = JSON.stringify(value)
    if (json === undefined) throw new TypeError('what is sent has to be JSON')
    const text = Buffer.from(json)
    if (text.length > this.#bounds.bytes || fds.length > this.#bounds.fds)
      throw handOverFault(
        `${text.length} bytes and ${fds.length} descriptors are more than one message has (${this.#bounds.bytes}, ${this.#bounds.fds})`,
      )
    const count = Math.max(
      1,
      Math.ceil(text.length / mostRecordText),
      Math.ceil(fds.length / mostRecordFds),
    )
    for (let i = 0; i < count; i += 1)
      await this.#sendRecord(
        {
          kind: 'data',
          isLast: i === count - 1,
          text: text.subarray(i * mostRecordText, (i + 1) * mostRecordText),
          fds: fds.slice(i * mostRecordFds, (i + 1) * mostRecordFds),
        },
        ms,
      )
  }

  async #sendRecord(record: RecordPart, ms: number): Promise<void> {
    let isSent = false
    const found = await this.#poll(ms, () => {
      if (!isSent && this.#end === undefined) isSent = this.#trySend(record)
      // Behind an acknowledgement there may be the end already.
      return isSent && this.#unacknowledged === 0 ? 'done' : this.#end
    })
    if (found === 'done') return
    const error =
      found === undefined
        ? handOverFault(`the other Usher has not taken what was sent to it for ${ms} ms`)
        : found
    if (error !== 'gone') throw this.#fail(error)
    throw handOverFault('the other Usher has gone before it had taken all')
  }

  #trySend(record: RecordPart): boolean {
    const sent = this.#guard(() => this.#socket.send(record))
    // That the other side has gone is found by reading, behind what it has left.
    if (sent !== 'sent') return false
    this.#newsAt = this.#clock.now()
    if (record.kind === 'data') this.#unacknowledged += 1
    return true
  }

  /** Waits for something while it takes in what arrives: both sides may be sending. */
  #poll<T>(ms: number, look: () => T | undefined): Promise<T | undefined> {
    const lookAfterReading = (): T | undefined => {
      this.#read()
      return look()
    }
    const since = this.#clock.now()
    return poll(this.#clock, ms, lookAfterReading, () => this.#pause(since))
  }

  async #pause(since: number): Promise<void> {
    const quietMs = this.#clock.now() - Math.max(since, this.#newsAt)
    if (quietMs >= eagerMs) return timer(this.#clock)
    await setImmediate()
    this.#socket.wait(pauseMs)
  }

  /** One record, if there is one. */
  #read(): void {
    if (this.#end !== undefined) return
    if (this.#owesAck && !this.#acknowledge()) return
    const record = this.#guard(() => this.#socket.receive())
    if (record === undefined) return
    this.#newsAt = this.#clock.now()
    if (record === 'end') this.#stop('gone')
    else this.#guard(() => this.#take(record))
  }

  #take(record: RecordPart): void {
    this.#fds.push(...record.fds)
    this.#heldFds += record.fds.length
    this.#heldBytes += record.text.length
    if (record.kind === 'bye') {
      this.#wasLeft = true
      return this.#stop('gone')
    }
    if (record.kind === 'ack') {
      if (this.#unacknowledged === 0 || record.fds.length > 0 || record.text.length > 0)
        throw handOverFault('the other process acknowledges what was not sent')
      this.#unacknowledged -= 1
      return
    }
    this.#check(record)
    this.#text.add(record.text)
    if (record.isLast) this.#complete()
    this.#owesAck = true
    this.#acknowledge()
  }

  #check({ isLast, text, fds }: RecordPart): void {
    const { bytes: mostBytes, fds: mostFds } = this.#bounds
    if (
      this.#heldBytes > mostBytes ||
      this.#heldFds > mostFds ||
      this.#inbox.length >= mostWaiting
    )
      throw handOverFault(
        `the other process sends more than ${mostBytes} bytes or ${mostFds} descriptors`,
      )
    if (!isLast && text.length === 0 && fds.length === 0)
      throw handOverFault('the other process sends records without anything in them')
  }

  #complete(): void {
    const value = parse(this.#text.bytes)
    const bytes = this.#text.length
    this.#inbox.push({ message: { value, fds: this.#fds }, bytes })
    this.#fds = []
    this.#text = new GrowingBytes(usualBounds.bytes)
  }

  /** False: later. One who has gone needs none. */
  #acknowledge(): boolean {
    const ack = { kind: 'ack', isLast: true, text: nothing, fds: [] } as const
    this.#owesAck = this.#guard(() => this.#socket.send(ack)) === 'later'
    return !this.#owesAck
  }

  /** One that is gone needs none. There is room: no more than one record is ever under way. */
  #sayBye(): void {
    try {
      this.#socket.send(bye)
    } catch (error) {
      this.#end = new AggregateError(
        [this.#end, error],
        'the way could not be closed in order',
      )
    }
  }

  /** What it can't do ends the channel. */
  #guard<T>(act: () => T): T | undefined {
    try {
      return act()
    } catch (error) {
      this.#fail(errorOf(error))
      return undefined
    }
  }

  #fail(error: Error): Error {
    this.#stop(error)
    return error
  }

  /** What has come as a whole can still be received. */
  #stop(end: 'gone' | Error): void {
    if (this.#end === undefined || this.#end === 'gone') this.#end = end
    // What it was sent before is not its own: from one that has died it would be.
    if (end !== 'gone') this.#sayBye()
    this.#socket.close()
    this.#socket.closeAll(this.#fds.splice(0))
  }
}

const nothing = Buffer.alloc(0)
const bye = { kind: 'bye', isLast: true, text: nothing, fds: [] } as const

const parse = (text: Buffer): unknown => {
  try {
    return JSON.parse(text.toString()) as unknown
  } catch (error) {
    throw handOverFault('a message of the other process is not JSON', errorOf(error))
  }
}

/** What waits for the other side. */
export interface Door {
  /** An abstract address of a random name. */
  readonly name: string
  /** Random, too: all users can read the names of sockets (/proc/net/unix). */
  readonly token: string
  /** The one peer that shows the token; rejects when the time is over. Closes the door in any case. */
  accept(ms: number): Promise<Channel>
  close(): void
}

/** Random ones. */
export const newPlace = (): Pick<Door, 'name' | 'token'> => ({
  name: `@usher-hand-over-${randomBytes(tokenBytes).toString('hex')}`,
  token: randomBytes(tokenBytes).toString('hex'),
})

export const openDoor = (
  calls: Syscalls,
  { name, token } = newPlace(),
  clock = systemClock,
): Door => {
  const fd = newSocket(calls)
  const bound = atAddress(calls, name, (address, length) =>
    calls.bind(fd, address, length),
  )
  const result = bound < 0 ? bound : calls.listen(fd, backlog)
  if (result < 0) {
    calls.close(fd)
    throw unheard(systemError(`${bound < 0 ? 'bind' : 'listen'} ${name}`, result))
  }
  return new OpenDoor(calls, clock, fd, name, token)
}

class OpenDoor implements Door {
  readonly name: string
  readonly token: string
  readonly #calls: Syscalls
  readonly #clock: Clock
  readonly #fd: number
  /** Those that are yet to show the token, the oldest first. */
  readonly #candidates = new Set<Channel>()
  #refused = 0
  #lastRefusal = ''
  #isClosed = false
  /** The one that has shown it, from then on. */
  #chosen: Channel | undefined
  /** The same when it knows. */
  #channel: Channel | undefined

  constructor(calls: Syscalls, clock: Clock, fd: number, name: string, token: string) {
    this.#calls = calls
    this.#clock = clock
    this.#fd = fd
    this.name = name
    this.token = token
  }

  async accept(ms: number): Promise<Channel> {
    if (this.#isClosed) throw doorClosed()
    try {
      const found = await poll(this.#clock, ms, () => {
        if (this.#channel !== undefined) return this.#channel
        if (this.#isClosed) throw doorClosed()
        for (let i = 0; i < mostCandidates && this.#letIn(); i += 1);
        return undefined
      })
      // It may have heard of it in the last moment.
      const channel = found ?? this.#channel
      if (channel !== undefined) return channel
      throw handOverFault(`no other Usher has come within ${ms} ms${this.#whoCame()}`)
    } finally {
      this.close()
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#calls.close(this.#fd)
    for (const candidate of this.#candidates) candidate.close()
    if (this.#channel === undefined) this.#chosen?.close()
  }

  #whoCame(): string {
    return this.#refused === 0
      ? ''
      : `; refused were ${this.#refused}, the last one because ${this.#lastRefusal}`
  }

  /** Whether one has come. */
  #letIn(): boolean {
    const fd = this.#calls.accept(this.#fd, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC)
    if (fd === -errno.EAGAIN || fd === -errno.EINTR || fd === -errno.ECONNABORTED)
      return false
    if (fd < 0) throw unheard(systemError('accept', fd))
    this.#examine(fd).catch((error: unknown) => {
      this.#refused += 1
      this.#lastRefusal = messageOf(error)
    })
    return true
  }

  /** Lasts until the door is closed at most: that closes the channel. */
  async #examine(fd: number): Promise<void> {
    const channel = channelOver(this.#calls, fd, this.#clock)
    this.#candidates.add(channel)
    try {
      // The right one speaks at once: who has been silent for longest is in its way.
      if (this.#candidates.size > mostCandidates) this.#closeOldest()
      const message = await channel.receive(Infinity)
      this.#choose(channel, message)
      await channel.send(welcome, [], Infinity)
      this.#channel = channel
    } catch (error) {
      channel.close()
      if (this.#chosen === channel) this.#chosen = undefined
      throw error
    } finally {
      this.#candidates.delete(channel)
    }
  }

  #choose(channel: Channel, message: Message | undefined): void {
    const { pid } = channel.peer
    if (message === undefined) throw handOverFault(`process ${pid} left without a word`)
    if (!isToken(message.value, this.token))
      throw handOverFault(`process ${pid} does not know the token`)
    if (this.#chosen !== undefined)
      throw handOverFault(`process ${pid} came when another had shown the token`)
    this.#chosen = channel
    this.#candidates.delete(channel)
    channel.trust()
  }

  #closeOldest(): void {
    const [oldest] = this.#candidates
    oldest?.close()
    if (oldest !== undefined) this.#candidates.delete(oldest)
  }
}

const doorClosed = (): UsherError =>
  handOverFault('the door to the other Usher was closed by this one')

const msUntil = (end: number, clock: Clock): number =>
  Math.max(0, Math.ceil(end - clock.now()))

/** Takes the socket over. Throws where who is at its other end may not be spoken to. */
const channelOver = (calls: Syscalls, fd: number, clock: Clock): Channel => {
  const socket = new RecordSocket(calls, fd)
  try {
    const peer = socket.open()
    const { pid, uid } = peer
    if (uid !== 0 && uid !== process.geteuid?.())
      throw handOverFault(
        `process ${pid} is of another user (${uid}), and is not spoken to`,
      )
    return new Channel(socket, peer, clock)
  } catch (error) {
    socket.close()
    throw error
  }
}

const welcome = { welcome: true }

/** In a time that does not depend on where the two differ. */
const isToken = (value: unknown, token: string): boolean => {
  const shown = (value as { readonly token?: unknown } | null | undefined)?.token
  const [is, should] = [
    Buffer.from(typeof shown === 'string' ? shown : ''),
    Buffer.from(token),
  ]
  return is.length === should.length && timingSafeEqual(is, should)
}

/**
 * The channel to who waits behind a door, once it has let us in. Rejects where there is none, or
 * it is of another user: that one is not shown the token.
 */
export const knock = async (
  calls: Syscalls,
  name: string,
  token: string,
  ms: number,
  clock = systemClock,
): Promise<Channel> => {
  const end = clock.now() + ms
  const fd = await connect(calls, name, ms, clock)
  const channel = channelOver(calls, fd, clock)
  try {
    await channel.send({ token }, [], msUntil(end, clock))
    const answer = await channel.receive(msUntil(end, clock))
    if (answer === undefined)
      throw handOverFault(`the Usher at ${name} does not take this one for its successor`)
    channel.trust()
    return channel
  } catch (error) {
    channel.close()
    throw error
  }
}

/** The descriptor of a connected socket. */
const connect = async (
  calls: Syscalls,
  name: string,
  ms: number,
  clock: Clock,
): Promise<number> => {
  const fd = newSocket(calls)
  // EAGAIN: there are more that wait than may (connect(2)).
  const result = await poll(clock, ms, () => {
    const answer = atAddress(calls, name, (address, length) =>
      calls.connect(fd, address, length),
    )
    return answer === -errno.EAGAIN || answer === -errno.EINTR ? undefined : answer
  })
  if (result === 0) return fd
  calls.close(fd)
  if (result === -errno.ECONNREFUSED)
    throw handOverFault(
      `no Usher waits at ${name} in this network namespace`,
      systemError('connect', result),
    )
  throw unheard(systemError(`connect ${name}`, result ?? -errno.EAGAIN))
}

const newSocket = (calls: Syscalls): number => {
  const fd = calls.socket(AF_UNIX, flags, 0)
  if (fd < 0) throw unheard(systemError('socket', fd))
  return fd
}

const unheard = (cause: Error): UsherError =>
  handOverFault(`another Usher can't be spoken to: ${cause.message}`, cause)

const atAddress = (
  calls: Syscalls,
  name: string,
  call: (address: number, length: number) => number,
): number => {
  const memory = calls.allocate(mostSockaddrBytes)
  return call(memory.address, writeSockaddr(memory, 0, `unix:${name}`, 0))
}
