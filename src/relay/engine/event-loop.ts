import {
  EPOLL_CTL_ADD,
  EPOLL_CTL_DEL,
  EPOLL_CTL_MOD,
  SOCK_CLOEXEC,
} from '../../ffi/constants.ts'
import { errno, systemError } from '../../ffi/errno.ts'
import { Timed, TimerWheel } from './timer-wheel.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import type { StructLayout } from '../../ffi/struct-layout.ts'
import type { NativeMemory, Syscalls } from '../../ffi/syscalls.ts'

/** Handles the events of all watched things of a kind: connections, listening sockets, flows. */
export interface EventSource<Item> {
  /** `events` of the descriptor that was added for `item`; 0 when `again` asked for it. */
  ready(item: Item, events: number): void
  /**
   * `ready` threw: end `item` without touching anything else. When this throws too, the turn
   * does at its end.
   */
  failed(item: Item, error: unknown): void
}

type AnySource = EventSource<unknown>

/** Timers that run beside those of `EventLoop.clock`. */
export interface LoopTimers {
  wait(now: number): number
  run(now: number): void
}

/** By which others see that it lives. */
export interface LoopSigns {
  readonly beat: () => void
  readonly idle: () => void
}

const mostEvents = 512
const tickMs = 8
/** An int has room for 24 days; nothing is lost by looking around after one hour. */
const longestWaitMs = 3_600_000
const modifyAgainMs = 10

/**
 * One thread's loop over epoll(7). Each descriptor belongs to an item of a source. An event
 * that comes late, of a descriptor that was closed, is dropped (see `EventTable`).
 */
export class EventLoop {
  readonly clock: LoopClock
  readonly #calls: Syscalls
  readonly #layout: StructLayout
  readonly #readTime: () => number
  readonly #beat: () => void
  readonly #markIdle: () => void
  readonly #epoll: number
  readonly #events: NativeMemory
  readonly #change: NativeMemory
  readonly #timers: LoopTimers[] = []
  readonly #afterTurn: (() => void)[] = []
  readonly #table = new EventTable<AnySource, unknown>()
  /** When a timer may expire: before that none is asked. */
  #due = 0
  /** Called once more. */
  #again: { readonly source: AnySource; readonly item: unknown }[] = []
  /** Events that `modify` could not ask for, by descriptor. */
  readonly #refused = new Map<number, number>()
  /** What a source's `failed` has thrown in this turn. */
  #unhandled: unknown

  /**
   * `readTime`: monotonic milliseconds; `beat` is called in every turn, and for each event, `idle`
   * before it waits.
   * Throws when the kernel gives no epoll instance.
   */
  constructor(
    calls: Syscalls,
    layout: StructLayout,
    readTime: () => number,
    { beat, idle }: LoopSigns = { beat: () => {}, idle: () => {} },
  ) {
    this.#calls = calls
    this.#layout = layout
    this.#readTime = readTime
    this.#beat = beat
    this.#markIdle = idle
    this.clock = new LoopClock(tickMs, readTime())
    this.#events = calls.allocate(mostEvents * layout.epollEventWords * 4)
    this.#change = calls.allocate(layout.epollEventWords * 4)
    this.#epoll = calls.epollCreate(SOCK_CLOEXEC)
    if (this.#epoll < 0) throw systemError('epoll_create1', this.#epoll)
  }

  /** The epoll instance, to be closed by what outlives the loop. */
  get fd(): number {
    return this.#epoll
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

  add<Item>(fd: number, source: EventSource<Item>, item: Item, events: number): number {
    this.#table.open(fd, source, item)
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

  /** Makes a watched descriptor another item's, with all events that come from now on. */
  pass<Item>(fd: number, source: EventSource<Item>, item: Item): void {
    this.#table.pass(fd, source, item)
  }

  /** Events that were told and not handled yet are dropped. */
  remove(fd: number): number {
    this.#table.close(fd)
    if (this.#refused.size > 0) this.#refused.delete(fd)
    return this.#control(EPOLL_CTL_DEL, fd, 0)
  }

  /**
   * To be called before `fd` is closed, watched or not: for each connection twice, so without a system call. By its
   * close it leaves epoll, unless a child has a copy of it, which has not called execve(2) yet: an edge that is told
   * until then is of an earlier generation. Level-triggered ones are to be removed: they would wake this loop without end.
   */
  closing(fd: number): void {
    if (!this.#table.isOpen(fd)) return
    this.#table.close(fd)
    if (this.#refused.size > 0) this.#refused.delete(fd)
  }

  /**
   * Calls `ready` with no events once more: when all events of this turn have been
   * handled, or in the next turn if `again` was what called it. By then the item may have
   * ended, which is for the source to know.
   */
  again<Item>(source: EventSource<Item>, item: Item): void {
    this.#again.push({ source, item })
  }

  /**
   * Waits at most `ms` (Infinity: for good) for something to do, and does it. Throws what
   * a timer or a callback of `afterTurn` throws; what was not reached is done next turn.
   */
  turn(ms: number): void {
    this.#markIdle()
    const count = this.#calls.epollWait(
      this.#epoll,
      this.#events.address,
      mostEvents,
      this.#wait(this.#again.length > 0 ? 0 : ms),
    )
    if (count < 0 && count !== -errno.EINTR) throw systemError('epoll_wait', count)
    const now = this.#readTime()
    this.#beat()
    this.clock.enter(now)
    // First, so that after a time without the CPU nothing expires that has come about.
    this.#dispatch(count)
    this.#callAgain()
    if (now >= this.#due) this.#runTimers(now)
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
      const source = table.sourceOf(fd, words[at + epollDataWord + 1] ?? 0)
      if (source !== undefined) this.#call(source, table.item(fd), words[at] ?? 0)
    }
  }

  #call(source: AnySource, item: unknown, events: number): void {
    this.#beat()
    try {
      source.ready(item, events)
    } catch (error) {
      this.#failed(source, item, error)
    }
  }

  /** There is one event for an edge: the others of the batch have to be handled whatever happens. */
  #failed(source: AnySource, item: unknown, error: unknown): void {
    try {
      source.failed(item, error)
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
    this.#again = []
    for (const { source, item } of called) this.#call(source, item, 0)
  }

  #runTimers(now: number): void {
    this.clock.run()
    for (const timers of this.#timers) timers.run(now)
  }

  /** Milliseconds for epoll_wait; -1 for no limit. */
  #wait(ms: number): number {
    const { now } = this
    let timersWait = this.clock.wait()
    for (const timers of this.#timers) timersWait = Math.min(timersWait, timers.wait(now))
    this.#due = now + timersWait
    const wait = Math.min(ms, timersWait)
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

class LoopTimer extends Timed implements Timer {
  /** It keeps no process alive. */
  declare readonly unref?: () => unknown
  readonly callback: () => void

  constructor(callback: () => void) {
    super()
    this.callback = callback
  }
}

/** The clock of code that runs in an EventLoop: its timers expire between two turns. */
export class LoopClock implements Clock {
  readonly #wheel: TimerWheel<LoopTimer>
  #now: number

  constructor(ms: number, now: number) {
    this.#now = now
    this.#wheel = new TimerWheel(ms, timer => timer.callback())
  }

  /** The time at which the present turn began. */
  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, ms: number): Timer {
    const timer = new LoopTimer(callback)
    this.#wheel.set(timer, ms, this.#now)
    return timer
  }

  clearTimeout(timer: Timer | undefined): void {
    if (timer !== undefined) this.#wheel.clear(timer as LoopTimer)
  }

  /** Milliseconds until a timer may expire. */
  wait(): number {
    return this.#wheel.wait(this.#now)
  }

  /** A new turn begins at `now`. */
  enter(now: number): void {
    this.#now = now
  }

  /** Calls what has expired by now. */
  run(): void {
    this.#wheel.run(this.#now)
  }
}

const smallest = 1024

/**
 * What each watched descriptor belongs to, and in which use of its number. A descriptor's
 * number is used again as soon as it is closed, and events of the earlier socket may come
 * later still: from the batch that is being handled, and for as long as a child of this process
 * that has not called execve(2) yet holds a copy of it (epoll(7), Q6). So each use of a number
 * has a generation of its own, which the kernel keeps beside it, and an event of an earlier one
 * is dropped.
 */
export class EventTable<Source, Item> {
  #generations = new Int32Array(0)
  readonly #sources: (Source | undefined)[] = []
  readonly #items: (Item | undefined)[] = []

  open(fd: number, source: Source, item: Item): void {
    if (fd < 0) return
    if (fd >= this.#generations.length) this.#grow(fd)
    this.#sources[fd] = source
    this.#items[fd] = item
    this.#renew(fd)
  }

  /** The present use of it is another one's: its events stay valid. */
  pass(fd: number, source: Source, item: Item): void {
    this.#sources[fd] = source
    this.#items[fd] = item
  }

  /** Events of its present use are dropped from now on. */
  close(fd: number): void {
    if (!this.isOpen(fd)) return
    this.#sources[fd] = undefined
    this.#items[fd] = undefined
    this.#renew(fd)
  }

  isOpen(fd: number): boolean {
    return this.#sources[fd] !== undefined
  }

  /** The source of the descriptor, if an event of `generation` is of its present use. */
  sourceOf(fd: number, generation: number): Source | undefined {
    return this.#generations[fd] === generation ? this.#sources[fd] : undefined
  }

  item(fd: number): Item | undefined {
    return this.#items[fd]
  }

  /** What its events are to carry. */
  generation(fd: number): number {
    return this.#generations[fd] ?? 0
  }

  /** 32 bits: the next of the same number comes after 4 billion uses of one descriptor. */
  #renew(fd: number): void {
    this.#generations[fd] = ((this.#generations[fd] ?? 0) + 1) | 0
  }

  #grow(fd: number): void {
    const size = Math.max(smallest, 2 ** Math.ceil(Math.log2(fd + 1)))
    const larger = new Int32Array(size)
    larger.set(this.#generations)
    this.#generations = larger
    // Without gaps: an array with many becomes a dictionary.
    while (this.#sources.length < size) this.#sources.push(undefined)
    while (this.#items.length < size) this.#items.push(undefined)
  }
}
