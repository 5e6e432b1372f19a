import { EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, SOCK_CLOEXEC } from './constants.ts'
import { errno, systemError } from './errno.ts'
import { EventTable } from './event-table.ts'
import { LoopClock } from './loop-clock.ts'
import type { NativeMemory } from './native-memory.ts'
import type { StructLayout } from './struct-layout.ts'
import type { Syscalls } from './syscalls.ts'

/** Something with numbered descriptors: connections, listening sockets, flows. */
export interface EventSource {
  /** `events` of the descriptor that was added as `index`; 0 when `again` asked for it. */
  ready(index: number, events: number): void
  /**
   * `ready` threw: end `index` without touching anything else. When this throws too, the turn
   * does at its end.
   */
  failed(index: number, error: unknown): void
}

/** Timers that run beside those of `EventLoop.clock`. */
export interface LoopTimers {
  wait(now: number): number
  run(now: number): void
}

const mostEvents = 512
const tickMs = 8
/** An int has room for 24 days; nothing is lost by looking around after one hour. */
const longestWaitMs = 3_600_000
const modifyAgainMs = 10

/**
 * One thread's loop over epoll(7). Each descriptor belongs to a source, under an index of the
 * source's own. Indexes may be used again at once: an event that is told late, of a descriptor
 * that was closed, comes to nobody (see `EventTable`).
 */
export class EventLoop {
  readonly clock: LoopClock
  readonly #calls: Syscalls
  readonly #layout: StructLayout
  readonly #readTime: () => number
  readonly #beat: () => void
  readonly #epoll: number
  readonly #events: NativeMemory
  readonly #change: NativeMemory
  readonly #sources: EventSource[] = []
  readonly #timers: LoopTimers[] = []
  readonly #afterTurn: (() => void)[] = []
  readonly #table = new EventTable()
  /** Pairs of source and index to be called once more. */
  #again: number[] = []
  #calledAgain: number[] = []
  /** Events that `modify` could not ask for, by descriptor. */
  readonly #refused = new Map<number, number>()
  /** What a source's `failed` has thrown in this turn. */
  #unhandled: unknown

  /**
   * `readTime`: monotonic milliseconds; `beat` is called in every turn, and for each event.
   * Throws when the kernel gives no epoll instance.
   */
  constructor(
    calls: Syscalls,
    layout: StructLayout,
    readTime: () => number,
    beat: () => void = () => {},
  ) {
    this.#calls = calls
    this.#layout = layout
    this.#readTime = readTime
    this.#beat = beat
    this.clock = new LoopClock(tickMs, readTime())
    this.#events = calls.allocate(mostEvents * layout.epollEventWords * 4)
    this.#change = calls.allocate(layout.epollEventWords * 4)
    this.#epoll = calls.epollCreate(SOCK_CLOEXEC)
    if (this.#epoll < 0) throw systemError('epoll_create1', this.#epoll)
  }

  /** The epoll instance, which whoever outlives the loop has to close. */
  get fd(): number {
    return this.#epoll
  }

  /** Gives the number by which `add` and `again` know the source. */
  register(source: EventSource): number {
    return this.#sources.push(source) - 1
  }

  addTimers(timers: LoopTimers): void {
    this.#timers.push(timers)
  }

  /** `callback` is called when all events of a turn have been handled. */
  afterTurn(callback: () => void): void {
    this.#afterTurn.push(callback)
  }

  /** Monotonic milliseconds at the start of the turn. */
  get now(): number {
    return this.clock.now()
  }

  add(fd: number, source: number, index: number, events: number): number {
    this.#table.open(fd, source, index)
    const result = this.#control(EPOLL_CTL_ADD, fd, events)
    if (result < 0) this.#table.close(fd)
    return result
  }

  /** Watches for other events. What the kernel refuses, for want of memory, is tried again. */
  modify(fd: number, events: number): void {
    if (this.#control(EPOLL_CTL_MOD, fd, events) >= 0) {
      if (this.#refused.size > 0) this.#refused.delete(fd)
      return
    }
    if (this.#refused.size === 0)
      this.clock.setTimeout(() => this.#modifyAgain(), modifyAgainMs)
    this.#refused.set(fd, events)
  }

  /** Makes a watched descriptor another one's, with all that comes from now on. */
  pass(fd: number, source: number, index: number): void {
    this.#table.pass(fd, source, index)
  }

  /** What was told of it and not handled yet comes to nobody. */
  remove(fd: number): number {
    this.#table.close(fd)
    if (this.#refused.size > 0) this.#refused.delete(fd)
    return this.#control(EPOLL_CTL_DEL, fd, 0)
  }

  /** To be called before `fd` is closed, watched or not. */
  closing(fd: number): void {
    if (this.#table.isOpen(fd)) this.remove(fd)
  }

  /**
   * Calls `ready` with no events once more: when all events of this turn have been
   * handled, or in the next turn if `again` was what called it. By then the index may be
   * another's, which is for the source to know.
   */
  again(source: number, index: number): void {
    this.#again.push(source, index)
  }

  /**
   * Waits at most `ms` (Infinity: for good) for something to do, and does it. Throws what
   * a timer or a callback of `afterTurn` throws; what was not reached is done next turn.
   */
  turn(ms: number): void {
    const count = this.#calls.epollWait(
      this.#epoll,
      this.#events.address,
      mostEvents,
      this.#again.length > 0 ? 0 : this.#wait(ms),
    )
    if (count < 0 && count !== -errno.EINTR) throw systemError('epoll_wait', count)
    const now = this.#readTime()
    this.#beat()
    this.clock.enter(now)
    // First, so that after a time without the CPU nothing expires that has come about.
    this.#dispatch(count)
    this.#callAgain()
    this.clock.run()
    for (const timers of this.#timers) timers.run(now)
    for (const callback of this.#afterTurn) callback()
    this.#throwUnhandled()
  }

  close(): void {
    this.#calls.close(this.#epoll)
  }

  #modifyAgain(): void {
    const refused = [...this.#refused]
    this.#refused.clear()
    for (const [fd, events] of refused) this.modify(fd, events)
  }

  #dispatch(count: number): void {
    const { words } = this.#events
    const { epollEventWords, epollDataWord } = this.#layout
    const table = this.#table
    for (let i = 0; i < count; i += 1) {
      const at = i * epollEventWords
      const fd = words[at + epollDataWord] ?? -1
      if (!table.isPresent(fd, words[at + epollDataWord + 1] ?? 0)) continue
      this.#call(table.source(fd), table.index(fd), words[at] ?? 0)
    }
  }

  #call(source: number, index: number, events: number): void {
    this.#beat()
    try {
      this.#sources[source]?.ready(index, events)
    } catch (error) {
      this.#failed(source, index, error)
    }
  }

  /** Edges are told once: the others of the batch have to be handled whatever happens. */
  #failed(source: number, index: number, error: unknown): void {
    try {
      this.#sources[source]?.failed(index, error)
    } catch (unhandled) {
      this.#unhandled ??= unhandled
    }
  }

  #throwUnhandled(): void {
    const unhandled = this.#unhandled
    this.#unhandled = undefined
    if (unhandled !== undefined) throw unhandled
  }

  #callAgain(): void {
    if (this.#again.length === 0) return
    const called = this.#again
    this.#again = this.#calledAgain
    this.#calledAgain = called
    for (let i = 0; i < called.length; i += 2) {
      this.#call(called[i] ?? 0, called[i + 1] ?? 0, 0)
    }
    called.length = 0
  }

  /** Milliseconds for epoll_wait; -1 for no limit. */
  #wait(ms: number): number {
    const { now } = this
    let wait = Math.min(ms, this.clock.wait())
    for (const timers of this.#timers) wait = Math.min(wait, timers.wait(now))
    if (wait === Infinity) return -1
    // Timers count from the start of the turn, and handling it has taken a while.
    const left = wait > 0 ? wait - (this.#readTime() - now) : 0
    return Math.min(Math.max(Math.ceil(left), 0), longestWaitMs)
  }

  #control(operation: number, fd: number, events: number): number {
    const { words, address } = this.#change
    const { epollDataWord } = this.#layout
    words[0] = events
    words[epollDataWord] = fd
    words[epollDataWord + 1] = this.#table.generation(fd)
    return this.#calls.epollCtl(this.#epoll, operation, fd, address)
  }
}
