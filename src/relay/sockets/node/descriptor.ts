import {
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  EPOLL_CTL_ADD,
  EPOLL_CTL_DEL,
} from '../../../ffi/constants.ts'

/** Reported whether they are asked for or not (epoll_ctl(2)). */
const always = EPOLLERR | EPOLLHUP

/** What a number stands for in the table of `NodeCalls`. */
export abstract class Descriptor {
  watch: Watch | undefined

  /** What epoll would report of it now. */
  abstract get state(): number

  /** No callback comes from it any more. */
  abstract close(): void

  /** Something has happened to it. */
  protected raise(events: number): void {
    this.watch?.raise(events)
  }

  /** Called when others than before wait for its events; 0: no one does. */
  watched(_events: number): void {}
}

/** That an epoll instance watches a descriptor. */
class Watch {
  readonly target: Descriptor
  readonly fd: number
  readonly generation: number
  readonly list: ReadyList
  events: number
  /** What has happened since it was reported last. */
  pending = 0
  isQueued = false

  constructor(
    list: ReadyList,
    target: Descriptor,
    fd: number,
    generation: number,
    events: number,
  ) {
    this.list = list
    this.target = target
    this.fd = fd
    this.generation = generation
    this.events = events
  }

  get isEdgeTriggered(): boolean {
    return (this.events & EPOLLET) !== 0
  }

  raise(events: number): void {
    this.pending |= events & (this.events | always)
    if (this.pending !== 0) this.list.queue(this)
  }

  /** What is to be reported of it, and is taken with that. */
  take(): number {
    const { target, pending } = this
    this.pending = 0
    if (this.isEdgeTriggered) return pending
    const events = target.state & (this.events | always)
    // Reported again for as long as it holds.
    this.pending = events
    return events
  }
}

/** An epoll instance (epoll(7)): what is watched, and of what there is something to report. */
export class ReadyList extends Descriptor {
  readonly #wake: () => void
  #queued: Watch[] = []

  /** `wake`: there is something to report. */
  constructor(wake: () => void) {
    super()
    this.#wake = wake
  }

  get isEmpty(): boolean {
    return this.#queued.length === 0
  }

  override get state(): number {
    return 0
  }

  override close(): void {
    this.#queued = []
  }

  control(
    operation: number,
    target: Descriptor,
    fd: number,
    generation: number,
    events: number,
  ): void {
    const { watch } = target
    if (operation === EPOLL_CTL_DEL) {
      target.watch = undefined
      return target.watched(0)
    }
    const next =
      operation === EPOLL_CTL_ADD || watch === undefined
        ? new Watch(this, target, fd, generation, events)
        : watch
    next.events = events
    target.watch = next
    target.watched(events)
    next.raise(target.state)
  }

  /** Does not watch it any more: this is about to be closed. */
  forget(target: Descriptor): void {
    if (target.watch?.list !== this) return
    target.watch = undefined
    target.watched(0)
  }

  queue(watch: Watch): void {
    if (watch.isQueued) return
    watch.isQueued = true
    this.#queued.push(watch)
    this.#wake()
  }

  /** Reports up to `most`; how many there were. */
  report(
    most: number,
    write: (index: number, events: number, fd: number, generation: number) => void,
  ): number {
    const queued = this.#queued
    this.#queued = []
    let count = 0
    for (const watch of queued) {
      if (count >= most) {
        this.#queued.push(watch)
        continue
      }
      watch.isQueued = false
      const events = watch.target.watch === watch ? watch.take() : 0
      if (events === 0) continue
      write(count, events, watch.fd, watch.generation)
      count += 1
      if (watch.pending !== 0) this.queue(watch)
    }
    return count
  }
}

/** An eventfd (eventfd(2)). */
export class EventCounter extends Descriptor {
  #count = 0

  override get state(): number {
    return this.#count > 0 ? EPOLLIN : 0
  }

  add(): void {
    this.#count += 1
    this.raise(this.state)
  }

  take(): number {
    const count = this.#count
    this.#count = 0
    return count
  }

  override close(): void {}
}
