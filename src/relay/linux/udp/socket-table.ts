import { EPOLLIN } from '../constants.ts'
import type { EventLoop, EventSource } from '../event-loop.ts'

/** Somebody with a socket that may have something to be read. */
export interface SocketUser {
  ready(): void
  /** `ready` threw. */
  failed(error: unknown): void
}

/** So long a socket is left alone that can't be read for want of memory. */
const restMs = 10

/** All sockets of one kind of a worker, by the numbers that the loop knows them by. */
export class SocketTable<U extends SocketUser> implements EventSource {
  readonly #loop: EventLoop
  readonly #source: number
  readonly #users: (U | undefined)[] = []
  readonly #free: number[] = []
  /** Descriptors by index of those that rest. */
  readonly #resting = new Map<number, number>()

  constructor(loop: EventLoop) {
    this.#loop = loop
    this.#source = loop.register(this)
  }

  /** Gives the number, to be handed to `remove` when the socket is gone; or -errno. */
  add(fd: number, user: U): number {
    const index = this.#free.pop() ?? this.#users.length
    this.#users[index] = user
    const added = this.#loop.add(fd, this.#source, index, EPOLLIN)
    if (added >= 0) return index
    this.remove(index)
    return added
  }

  /** Not `ready` for a while: it would be so in every turn, and to no avail. */
  rest(index: number, fd: number): void {
    this.#loop.modify(fd, 0)
    if (this.#resting.size === 0) this.#loop.clock.setTimeout(() => this.#wake(), restMs)
    this.#resting.set(index, fd)
  }

  remove(index: number): void {
    this.#resting.delete(index)
    this.#users[index] = undefined
    this.#free.push(index)
  }

  ready(index: number): void {
    this.#users[index]?.ready()
  }

  failed(index: number, error: unknown): void {
    this.#users[index]?.failed(error)
  }

  #wake(): void {
    for (const fd of this.#resting.values()) this.#loop.modify(fd, EPOLLIN)
    this.#resting.clear()
  }
}
