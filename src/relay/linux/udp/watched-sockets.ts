import { EPOLLIN } from '../constants.ts'
import type { EventLoop, EventSource } from '../event-loop.ts'

/** What has a socket: a listening one, or a flow's. */
export interface SocketUser {
  /** There is something to be read. */
  ready(): void
  /** `ready` threw. */
  failed(error: unknown): void
}

/** So long a socket is left alone that can't be read for want of memory. */
const restMs = 10

/** All UDP sockets of a worker that are read from. */
export class WatchedSockets implements EventSource<SocketUser> {
  readonly #loop: EventLoop
  /** Descriptors of those that rest. */
  readonly #resting = new Set<number>()

  constructor(loop: EventLoop) {
    this.#loop = loop
  }

  /** Zero, or -errno. `remove` is to be called before it is closed. */
  add(fd: number, user: SocketUser): number {
    return this.#loop.add(fd, this, user, EPOLLIN)
  }

  /** Not `ready` for a while: it would be so in every turn, and to no avail. */
  rest(fd: number): void {
    this.#loop.modify(fd, 0)
    if (this.#resting.size === 0) this.#loop.clock.setTimeout(() => this.#wake(), restMs)
    this.#resting.add(fd)
  }

  remove(fd: number): void {
    if (this.#resting.size > 0) this.#resting.delete(fd)
    this.#loop.closing(fd)
  }

  ready(user: SocketUser): void {
    user.ready()
  }

  failed(user: SocketUser, error: unknown): void {
    user.failed(error)
  }

  #wake(): void {
    for (const fd of this.#resting) this.#loop.modify(fd, EPOLLIN)
    this.#resting.clear()
  }
}
