import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { KeptConnection, type KeptOwner } from './kept-connection.ts'
import { destroyAll, type Line } from './line.ts'
import type { ErrorCounts } from './load.ts'

/** Connections being opened at a time: below every listen backlog. */
const parallel = 64
const answerWithinMs = 2000
/** When so many have failed one after the other, the rest is not tried. */
const hopeless = 64

/**
 * Opens connections, exchanges one request on each (so that a proxy has certainly
 * connected to its backend), and leaves them idle. Those that fail are counted.
 */
export class IdleConnections implements KeptOwner {
  readonly #line: Line
  readonly #errors: ErrorCounts
  readonly #wanted: number
  readonly #answered = new Set<KeptConnection>()
  readonly #opening = new Set<KeptConnection>()
  #started = 0
  #failedInARow = 0
  #isClosing = false

  constructor(line: Line, wanted: number, errors: ErrorCounts) {
    this.#line = line
    this.#wanted = wanted
    this.#errors = errors
  }

  get opened(): number {
    return this.#answered.size
  }

  /** Resolves when each is open or has failed. */
  async open(): Promise<void> {
    this.#openMore()
    while (this.#opening.size > 0) {
      await sleep(10)
      const limit = performance.now() - answerWithinMs
      for (const connection of this.#opening) connection.expire(limit)
    }
  }

  onFree(connection: KeptConnection, at: number): void {
    if (this.#opening.has(connection)) connection.ask(at, at)
  }

  onAnswer(connection: KeptConnection): void {
    this.#failedInARow = 0
    this.#opening.delete(connection)
    this.#answered.add(connection)
    this.#openMore()
  }

  onEnd(connection: KeptConnection, failure: string): void {
    this.#opening.delete(connection)
    this.#answered.delete(connection)
    if (this.#isClosing) return
    this.#failedInARow += 1
    this.#errors.add(failure || 'closed early')
    this.#openMore()
  }

  async close(): Promise<void> {
    this.#isClosing = true
    const all = [...this.#answered, ...this.#opening]
    for (const connection of all) connection.leave(performance.now())
    const limit = performance.now() + answerWithinMs
    while (performance.now() < limit && all.some(({ socket }) => !socket.closed))
      await sleep(5)
    await destroyAll(all.map(({ socket }) => socket))
  }

  #openMore(): void {
    while (this.#opening.size < parallel && this.#started < this.#wanted) {
      if (this.#isClosing || this.#failedInARow >= hopeless) return
      this.#started += 1
      this.#opening.add(new KeptConnection(this.#line, this))
    }
  }
}
