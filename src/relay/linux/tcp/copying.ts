import {
  IPPROTO_TCP,
  MSG_MORE,
  MSG_NOSIGNAL,
  MSG_PEEK,
  MSG_TRUNC,
  SPLICE_F_MOVE,
  SPLICE_F_NONBLOCK,
  TCP_NODELAY,
} from '../constants.ts'
import { errno } from '../errno.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import {
  connectionOf,
  type ConnectionTable,
  flag,
  isBackend,
  opposite,
  state,
} from './connection-table.ts'
import type { DirectionEnds } from './direction-ends.ts'
import { copyOf, sizeOf, without } from './held-bytes.ts'
import { isPassing, isShortage } from './passing-errors.ts'
import type { PipePool } from './pipe-pool.ts'
import { SendRoom } from './send-room.ts'
import { allEvents } from './side-events.ts'

/** Bytes that one direction may move before others have their turn. */
const turnBytes = 512 * 1024
/** Full reads in a row that make a direction bulk, which is spliced from then on. */
const fullReads = 4
/** Splices in a row below this many bytes after which copying is cheaper again. */
const meagreBytes = 16 * 1024
const meagreSplices = 8
/** What all connections of a worker may hold together, unless it is said. */
const mostHeldBytes = 64 << 20
const mostInterrupts = 10
/** The kernel was out of memory; it says nothing when it is not any more. */
const shortageMs = 10

/**
 * The two half-duplex copies of each connection: what is read from one side is written to
 * the opposite one, through one buffer for all, or through a pipe once it proves to be much.
 */
export class Copying {
  readonly #env: WorkerEnv
  readonly #table: ConnectionTable
  readonly #pipes: PipePool
  readonly #ends: DirectionEnds
  readonly #source: number
  readonly #buffer: NativeMemory
  readonly #size: number
  readonly #mostHeld: number
  readonly #one: NativeMemory
  readonly #room: SendRoom

  /** `source`: the number of the connections in the loop. */
  constructor(
    env: WorkerEnv,
    table: ConnectionTable,
    pipes: PipePool,
    ends: DirectionEnds,
    source: number,
  ) {
    this.#env = env
    this.#table = table
    this.#pipes = pipes
    this.#ends = ends
    this.#source = source
    this.#size = env.limits.bufferBytes
    this.#mostHeld = env.limits.heldBytes ?? mostHeldBytes
    this.#buffer = env.calls.allocate(this.#size)
    this.#one = env.calls.allocate(4)
    this.#one.words[0] = 1
    this.#room = new SendRoom(env.calls)
  }

  /** Moves what there is from a side to the opposite one, as far as it goes now. */
  move(from: number): void {
    const table = this.#table
    if (table.has(from, flag.readable) && table.holds(from) && !this.#unblock(from))
      return
    let left = turnBytes
    while (table.has(from, flag.readable)) {
      if (left <= 0) return this.#again(from)
      const moved = (table.pipe[from] ?? -1) >= 0 ? this.#splice(from) : this.#copy(from)
      if (moved < 0) return
      left -= moved
    }
  }

  /** What a shortage or a signal has interrupted, reading or writing. */
  resume(from: number): void {
    if (!this.#table.holds(from) || this.#unblock(from)) this.move(from)
  }

  /** Writes what is held of a side; whether all of it could be. */
  flush(from: number): boolean {
    const isFree =
      this.#table.stuck[from] === undefined
        ? this.#flushPipe(from)
        : this.#flushStuck(from)
    if (isFree) this.#ends.flushed(from)
    return isFree
  }

  /** Gives back what a side holds, at its end. */
  drop(side: number): void {
    const table = this.#table
    this.#keep(side, undefined)
    this.#env.signs.hold(-(table.piped[side] ?? 0))
    const pipe = table.pipe[side] ?? -1
    if (pipe < 0) return
    this.#pipes.giveBack(pipe, table.piped[side] === 0)
    table.pipe[side] = -1
    table.piped[side] = 0
  }

  /** Whether what is held could be written, and the connection goes on. */
  #unblock(from: number): boolean {
    if (this.#table.has(opposite(from), flag.full)) return false
    return this.flush(from) && this.#table.state[connectionOf(from)] === state.open
  }

  /** Bytes moved; -1: there is no more to be done for this direction now. */
  #copy(from: number): number {
    if (this.#holdsEnough) return this.#passOn(from)
    const table = this.#table
    const count = this.#read(from, 0)
    if (count <= 0) return this.#nothingRead(from, count)
    this.#count(from, count)
    const streak = count === this.#size ? (table.streak[from] ?? 0) + 1 : 0
    table.streak[from] = streak
    const isLast =
      this.#noteDrained(from, count) &&
      table.has(from, flag.finSeen) &&
      !table.has(from, flag.broken)
    if (!this.#write(from, count, isLast ? MSG_MORE : 0)) return -1
    if (isLast) return this.#nothingRead(from, 0)
    // Splicing can't get past urgent data: it answers EAGAIN, or even the end.
    if (streak >= fullReads && !table.has(from, flag.urgent)) this.#startSplicing(from)
    return count
  }

  #read(from: number, flags: number): number {
    const fd = this.#table.fd[from] ?? -1
    return this.#env.calls.recv(fd, this.#buffer.address, this.#size, flags)
  }

  /** A short read has emptied the queue (epoll(7)), but for urgent data: notes whether. */
  #noteDrained(from: number, count: number): boolean {
    const table = this.#table
    const isDrained = count < this.#size && !table.has(from, flag.urgent)
    if (isDrained && !table.has(from, flag.hungUp)) table.unset(from, flag.readable)
    return isDrained
  }

  get #holdsEnough(): boolean {
    return this.#env.signs.heldBytes >= this.#mostHeld
  }

  /**
   * As `#copy`, for one call more, but holds nothing: what the opposite side does not take
   * stays in the queue of the socket that it came by, which holds up its sender.
   */
  #passOn(from: number): number {
    const table = this.#table
    const to = opposite(from)
    if (table.has(to, flag.full)) return -1
    const count = this.#read(from, MSG_PEEK)
    if (count <= 0) return this.#nothingRead(from, count)
    const sent = this.#send(to, count, 0)
    if (sent > 0) {
      this.#count(from, sent)
      if (!this.#discard(from, sent)) return -1
    }
    if (sent === count) {
      this.#noteDrained(from, count)
      return count
    }
    if (sent < 0 && !isPassing(sent)) this.#writeFailed(to, sent)
    else this.#waitForRoom(to, from, sent)
    return -1
  }

  /**
   * Takes from a side's queue what was sent. If that is not all gone it would be sent twice,
   * and what is left may begin behind an urgent mark: the connection ends.
   */
  #discard(from: number, count: number): boolean {
    const fd = this.#table.fd[from] ?? -1
    let gone = -errno.EINTR
    for (let tries = 0; gone === -errno.EINTR && tries < mostInterrupts; tries += 1) {
      gone = this.#env.calls.recv(fd, this.#buffer.address, count, MSG_TRUNC)
    }
    if (gone === count) return true
    this.#ends.broken(from, gone < 0 ? gone : -errno.EPROTO)
    return false
  }

  /**
   * Writes what was just read; what can't be is held. With MSG_MORE the FIN that follows
   * goes in the same segment.
   */
  #write(from: number, count: number, flags: number): boolean {
    const to = opposite(from)
    const written = this.#send(to, count, flags)
    if (written === count) return true
    if (written < 0 && !isPassing(written)) {
      this.#writeFailed(to, written)
      return false
    }
    const rest = copyOf(this.#buffer.bytes.subarray(Math.max(written, 0), count))
    this.#keep(from, rest)
    this.#waitForRoom(to, from, written)
    return false
  }

  #flushStuck(from: number): boolean {
    const table = this.#table
    const rest = table.stuck[from]
    if (rest === undefined) return true
    const to = opposite(from)
    rest.copy(this.#buffer.bytes)
    const written = this.#send(to, rest.length, 0)
    if (written < 0 && !isPassing(written)) {
      this.#writeFailed(to, written)
      return false
    }
    if (written === rest.length) {
      this.#keep(from, undefined)
      return true
    }
    this.#keep(from, without(rest, Math.max(written, 0)))
    this.#waitForRoom(to, from, written)
    return false
  }

  /** What is held of a side from now on; counted is what it takes up. */
  #keep(side: number, rest: Buffer | undefined): void {
    const { stuck } = this.#table
    this.#env.signs.hold(sizeOf(rest) - sizeOf(stuck[side]))
    stuck[side] = rest
  }

  /** Sends the start of the buffer; bytes taken, or a negative errno. */
  #send(to: number, length: number, flags: number): number {
    const { calls } = this.#env
    if (isBackend(to) && !this.#table.has(to, flag.noDelay)) this.#beforeWrite(to)
    const fd = this.#table.fd[to] ?? -1
    return calls.send(fd, this.#buffer.address, length, MSG_NOSIGNAL | flags)
  }

  #splice(from: number): number {
    const table = this.#table
    const pipe = table.pipe[from] ?? -1
    if (table.has(from, flag.urgent) || this.#holdsEnough) return this.#copyAgain(from)
    const count = this.#env.calls.splice(
      table.fd[from] ?? -1,
      this.#pipes.writeEnd(pipe),
      Math.max(this.#size, this.#room.of(table.fd[opposite(from)] ?? -1)),
      SPLICE_F_MOVE | SPLICE_F_NONBLOCK,
    )
    // The end, or urgent data that came a moment ago: a read tells.
    if (count === 0) return this.#copyAgain(from)
    if (count < 0) return this.#nothingRead(from, count)
    this.#count(from, count)
    table.piped[from] = (table.piped[from] ?? 0) + count
    this.#env.signs.hold(count)
    table.streak[from] = count < meagreBytes ? (table.streak[from] ?? 0) + 1 : 0
    if (!this.#flushPipe(from)) return -1
    if ((table.streak[from] ?? 0) >= meagreSplices) this.#stopSplicing(from)
    return count
  }

  #copyAgain(from: number): number {
    this.#stopSplicing(from)
    return this.#copy(from)
  }

  #flushPipe(from: number): boolean {
    const table = this.#table
    const to = opposite(from)
    const readEnd = this.#pipes.readEnd(table.pipe[from] ?? -1)
    if ((table.piped[from] ?? 0) > 0 && isBackend(to) && !table.has(to, flag.noDelay)) {
      this.#beforeWrite(to)
    }
    for (let left = table.piped[from] ?? 0; left > 0; left = table.piped[from] ?? 0) {
      const written = this.#env.calls.splice(
        readEnd,
        table.fd[to] ?? -1,
        left,
        SPLICE_F_MOVE | SPLICE_F_NONBLOCK,
      )
      if (written > 0) {
        table.piped[from] = left - written
        this.#env.signs.hold(-written)
      } else if (written === 0 || isPassing(written)) {
        this.#waitForRoom(to, from, written)
        return false
      } else {
        this.#writeFailed(to, written)
        return false
      }
    }
    return true
  }

  #startSplicing(from: number): void {
    this.#table.streak[from] = 0
    this.#table.pipe[from] = this.#pipes.take()
  }

  #stopSplicing(from: number): void {
    const table = this.#table
    table.streak[from] = 0
    this.#pipes.giveBack(table.pipe[from] ?? -1, true)
    table.pipe[from] = -1
  }

  #nothingRead(from: number, result: number): number {
    const table = this.#table
    if (result === -errno.EINTR) return 0
    if (result < 0 && isShortage(result)) {
      this.#later(from)
      return -1
    }
    table.unset(from, flag.readable)
    if (result === 0) this.#ends.ended(from)
    else if (result !== -errno.EAGAIN) this.#ends.broken(from, result)
    return -1
  }

  /**
   * The peer is gone, but what it sent before it went may still be in the kernel's queue;
   * after that comes its reset.
   */
  #writeFailed(to: number, result: number): void {
    const table = this.#table
    const isLast = table.fd[opposite(to)] === -1
    if (isLast || table.has(to, flag.ended)) return this.#ends.broken(to, result)
    this.drop(opposite(to))
    table.set(to, flag.broken | flag.readable | flag.hungUp)
    this.move(to)
  }

  /**
   * Small pieces must not wait for one another (Nagle's algorithm), but the first can't:
   * a connection with one request is spared a system call. Accepted sockets have it from
   * the listening one.
   */
  #beforeWrite(side: number): void {
    const table = this.#table
    if (!table.has(side, flag.wroteOnce)) return table.set(side, flag.wroteOnce)
    table.set(side, flag.noDelay)
    const { address } = this.#one
    const fd = table.fd[side] ?? -1
    this.#env.calls.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, address, 4)
  }

  #waitForRoom(to: number, from: number, result: number): void {
    const table = this.#table
    if (result < 0 && isShortage(result)) return this.#later(from)
    if (result === -errno.EINTR) return this.#again(from)
    table.set(to, flag.full)
    if (table.has(to, flag.watchesRoom)) return
    table.set(to, flag.watchesRoom)
    this.#env.loop.modify(table.fd[to] ?? -1, allEvents)
  }

  #again(side: number): void {
    const table = this.#table
    if (table.has(side, flag.queued)) return
    table.set(side, flag.queued)
    this.#env.loop.again(this.#source, side)
  }

  #later(side: number): void {
    const { loop } = this.#env
    const connection = connectionOf(side)
    const generation = this.#table.generation[connection]
    loop.clock.setTimeout(() => {
      const isSame = this.#table.generation[connection] === generation
      if (isSame) this.#again(side)
    }, shortageMs)
  }

  #count(from: number, count: number): void {
    const table = this.#table
    table.bytes[from] = (table.bytes[from] ?? 0) + count
    table.listener[connectionOf(from)]?.counters.countBytes(!isBackend(from), count)
  }
}
