import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { KeptConnection, type KeptOwner } from './kept-connection.ts'
import { destroyAll, type Line } from './line.ts'
import type { ErrorCounts } from './load.ts'

/** Milliseconds before a lost connection is made anew, so that a dead target can't spin. */
const reconnectMs = 20
const sweepMs = 250
/** A connection that waits for so long at the end of a window may be stuck. */
const suspiciousMs = 250

export interface KeptPlan {
  readonly line: Line
  readonly connections: number
  /** A connection that has no answer by then counts as an error and is replaced. */
  readonly answerWithinMs: number
}

/** So many connections, each replaced when it ends. Errors are counted here. */
export class KeptConnections {
  readonly #plan: KeptPlan
  readonly #owner: KeptOwner
  readonly #errors: ErrorCounts
  readonly #open = new Set<KeptConnection>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #sweeper: NodeJS.Timeout
  #isStopped = false

  constructor(plan: KeptPlan, owner: KeptOwner, errors: ErrorCounts) {
    this.#plan = plan
    this.#errors = errors
    this.#owner = {
      onFree: (connection, at) => owner.onFree(connection, at),
      onAnswer: (connection, at) => owner.onAnswer(connection, at),
      onEnd: (connection, failure) => {
        if (!this.#isStopped) owner.onEnd(connection, failure)
        this.#replace(connection, failure)
      },
    }
    for (let count = 0; count < plan.connections; count += 1) this.#add()
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs)
  }

  /** Waits until connections that seem stuck have answered or were given up. */
  async settleStuck(): Promise<void> {
    const limit = performance.now() - suspiciousMs
    const stuck = Array.from(this.#open, connection => ({
      connection,
      since: connection.waitingSince,
    })).filter(({ since }) => since > 0 && since < limit)
    while (stuck.some(({ connection, since }) => connection.waitingSince === since))
      await sleep(20)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweeper)
    for (const timer of this.#timers) clearTimeout(timer)
    await destroyAll(Array.from(this.#open, ({ socket }) => socket))
  }

  #add(): void {
    this.#open.add(new KeptConnection(this.#plan.line, this.#owner))
  }

  #replace(connection: KeptConnection, failure: string): void {
    this.#open.delete(connection)
    if (this.#isStopped) return
    if (failure === '') return this.#add()
    this.#errors.add(failure)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#add()
    }, reconnectMs)
    this.#timers.add(timer)
  }

  #sweep(): void {
    const limit = performance.now() - this.#plan.answerWithinMs
    for (const connection of this.#open) connection.expire(limit)
  }
}
