import { isOutOfResources } from '../../../util/usher-error.ts'
import { mostHeaderBytes } from '../../../util/proxy-header.ts'
import type { GrowingBytes } from '../../../util/growing-bytes.ts'
import { MSG_NOSIGNAL, SPLICE_F_MOVE, SPLICE_F_NONBLOCK } from '../../../ffi/constants.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'
import type { EventSource } from '../event-loop.ts'
import type { NativeMemory } from '../../../ffi/syscalls.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { allEvents, flag, type Side } from './connection.ts'
import type { Pipe, PipePool } from './pipe-pool.ts'
import type { SocketCalls } from './socket-calls.ts'

/** The kernel was out of memory; it says nothing when it is not any more. */
const shortageMs = 10

/** What has become of what a side holds. */
export const sent = {
  /** All of it is written. */
  all: 1,
  /** The rest waits for room. */
  some: 0,
} as const

/**
 * Writes what was read from one side to the opposite one, and holds what that does not take:
 * in memory, or in the pipe that it came by.
 */
export class Sending {
  /** Reads go here, for all connections: what can't be written at once is held. */
  readonly buffer: NativeMemory
  readonly #env: WorkerEnv
  readonly #pipes: PipePool
  readonly #sides: EventSource<Side>
  readonly #sockets: SocketCalls

  /** `sides` handles the events of sides. */
  constructor(
    env: WorkerEnv,
    pipes: PipePool,
    sockets: SocketCalls,
    sides: EventSource<Side>,
  ) {
    this.#env = env
    this.#pipes = pipes
    this.#sides = sides
    // What is held is written in one piece, from here.
    this.buffer = env.calls.allocate(env.limits.connectionBuffer + mostHeaderBytes)
    this.#sockets = sockets
  }

  /** Sends the start of the buffer; bytes taken, or a negative errno. */
  send(to: Side, length: number, flags: number): number {
    if (to.isBackend && !to.has(flag.noDelay)) this.#beforeWrite(to)
    return this.#env.calls.send(to.fd, this.buffer.address, length, MSG_NOSIGNAL | flags)
  }

  /** The part of the buffer that the opposite side did not take; `result` of the last call. */
  hold(from: Side, start: number, end: number, result: number): void {
    this.#keep(from, copyOf(this.buffer.bytes.subarray(start, end)))
    this.waitForRoom(from, result)
  }

  /**
   * Keeps a copy of the first `count` bytes of the buffer, which were read from a side, if with
   * what was buffered before they are at most `most`; else the replay buffer is dropped.
   */
  bufferForReplay(from: Side, count: number, most: number): void {
    const { replayBuffer } = from
    if (replayBuffer === undefined) return
    if (replayBuffer.length + count > most) return this.dropReplayBuffer(from)
    const before = replayBuffer.capacity
    replayBuffer.add(this.buffer.bytes.subarray(0, count))
    this.#env.signs.hold(replayBuffer.capacity - before)
  }

  dropReplayBuffer(from: Side): void {
    if (from.replayBuffer === undefined) return
    this.#env.signs.hold(-from.replayBuffer.capacity)
    from.replayBuffer = undefined
  }

  /** To another endpoint: the side holds its whole replay buffer again. */
  resend(from: Side): void {
    const { replayBuffer } = from
    this.drop(from)
    if (replayBuffer !== undefined && replayBuffer.length > 0)
      this.#keep(from, copyOf(replayBuffer.bytes))
  }

  /** A header goes before what the side holds. */
  holdBefore(from: Side, header: Buffer): void {
    this.#keep(from, joined(header, from.held))
  }

  /** The first `count` bytes of the buffer go behind what the side holds. */
  holdMore(from: Side, count: number): void {
    this.#keep(from, joined(from.held, this.buffer.bytes.subarray(0, count)))
  }

  /** Writes what a side holds: `sent`, or the negative errno of a write that failed. */
  flush(from: Side): number {
    return from.held === undefined ? this.flushPipe(from) : this.#flushHeld(from)
  }

  flushPipe(from: Side): number {
    const to = from.opposite
    if (from.pipe === undefined || from.piped === 0) return sent.all
    if (to.isBackend && !to.has(flag.noDelay)) this.#beforeWrite(to)
    while (from.piped > 0) {
      const written = this.#env.calls.splice(
        from.pipe.readEnd,
        to.fd,
        from.piped,
        SPLICE_F_MOVE | SPLICE_F_NONBLOCK,
      )
      if (written > 0) this.piped(from, -written)
      else if (written < 0 && !isPassing(written)) return written
      else {
        this.waitForRoom(from, written)
        return sent.some
      }
    }
    return sent.all
  }

  /** So many bytes more are in its pipe. */
  piped(from: Side, bytes: number): void {
    from.piped += bytes
    this.#env.signs.hold(bytes)
  }

  /** Gives back what a side holds: there is no peer to write it to. */
  drop(from: Side): void {
    this.#keep(from, undefined)
    const { pipe } = from
    if (pipe === undefined) return
    const isEmpty = from.piped === 0
    this.piped(from, -from.piped)
    from.pipe = undefined
    this.#pipes.giveBack(pipe, isEmpty)
  }

  /** A pipe that was read from, and may be read from again, is of use elsewhere. */
  dropEmptyPipe(from: Side): void {
    const { pipe, piped } = from
    if (pipe === undefined || piped > 0) return
    from.pipe = undefined
    this.#pipes.giveBack(pipe, true)
  }

  /** What another process has held for a side. */
  adopt(
    from: Side,
    held: Buffer | undefined,
    replay: GrowingBytes | undefined,
    pipe: Pipe | undefined,
    piped: number,
  ): void {
    if (held !== undefined) this.#keep(from, copyOf(held))
    from.replayBuffer = replay
    if (replay !== undefined) this.#env.signs.hold(replay.capacity)
    from.pipe = pipe
    if (pipe !== undefined) this.piped(from, piped)
  }

  /** What is left of `from` goes on when the opposite side has room; `result` says why. */
  waitForRoom(from: Side, result: number): void {
    const to = from.opposite
    if (result < 0 && isShortage(result)) return this.later(from)
    if (result === -errno.EINTR) return this.again(from)
    to.set(flag.full)
    if (to.has(flag.watchesRoom)) return
    to.set(flag.watchesRoom)
    this.#env.loop.modify(to.fd, allEvents)
  }

  /** The side has another turn when others have had theirs. */
  again(side: Side): void {
    if (side.has(flag.queued)) return
    side.set(flag.queued)
    this.#env.loop.again(this.#sides, side)
  }

  /** The same, when the kernel may have memory again. */
  later(side: Side): void {
    this.#env.loop.clock.setTimeout(() => {
      if (!side.connection.isEnded) this.again(side)
    }, shortageMs)
  }

  #flushHeld(from: Side): number {
    const { held } = from
    if (held === undefined) return sent.all
    held.copy(this.buffer.bytes)
    const written = this.send(from.opposite, held.length, 0)
    if (written < 0 && !isPassing(written)) return written
    if (written === held.length) {
      this.#keep(from, undefined)
      return sent.all
    }
    this.#keep(from, without(held, Math.max(written, 0)))
    this.waitForRoom(from, written)
    return sent.some
  }

  /** Counted is the memory that it takes up. */
  #keep(from: Side, rest: Buffer | undefined): void {
    this.#env.signs.hold(sizeOf(rest) - sizeOf(from.held))
    from.held = rest
  }

  /**
   * Small pieces must not wait for one another (Nagle's algorithm), but the first can't:
   * a connection with one request is spared a system call. Accepted sockets have it from
   * the listening one.
   */
  #beforeWrite(side: Side): void {
    if (!side.has(flag.wroteOnce)) return side.set(flag.wroteOnce)
    side.set(flag.noDelay)
    this.#sockets.noDelay(side.fd)
  }
}

/** A write that may go on later. */
export const isPassing = (result: number): boolean =>
  result === -errno.EAGAIN || result === -errno.EINTR || isShortage(result)

/** The kernel has no memory for it now. */
export const isShortage = (result: number): boolean =>
  result !== -errno.EAGAIN && isOutOfResources(errnoName(result))

/** In memory of its own, not of Node's pool: it takes up what it holds. */
const copyOf = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

/** The same of two. */
const joined = (first: Buffer | undefined, second: Buffer | undefined): Buffer => {
  const [one, other] = [first ?? nothing, second ?? nothing]
  const both = Buffer.allocUnsafeSlow(one.length + other.length)
  other.copy(both, one.copy(both))
  return both
}

const nothing = Buffer.alloc(0)

/** Without the first `count` bytes. A part keeps the whole from being freed: a small one is copied. */
const without = (held: Buffer, count: number): Buffer => {
  const left = held.subarray(count)
  return left.length * 2 < left.buffer.byteLength ? copyOf(left) : left
}

/** The memory that it takes up. */
const sizeOf = (held: Buffer | undefined): number => held?.buffer.byteLength ?? 0
