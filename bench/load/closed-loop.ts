import { performance } from 'node:perf_hooks'
import { type ConnectionOwner, type HttpConnection, lineTo, Pool } from './http.ts'
import { ErrorCounts, type Findings, type Load, present, Timings } from './load.ts'
import type { LoadAnswer, Page } from './question.ts'

/** As wrk(1) has it. */
const answerWithinMs = 2000

export interface ClosedLoopPlan extends Page {
  readonly connections: number
  /** Each connection has one request, and another one comes after it. */
  readonly closes?: boolean
}

/** A closed loop: the next request, or connection, goes when the answer to the last has come. */
export class ClosedLoop implements Load, ConnectionOwner {
  readonly errors = new ErrorCounts()
  readonly #closes: boolean
  readonly #pool: Pool
  readonly #connect = new Timings()
  readonly #latency = new Timings()
  #done = 0

  constructor({ connections, closes = false, ...page }: ClosedLoopPlan) {
    this.#closes = closes
    this.#pool = new Pool({ line: lineTo(page), answerWithinMs, kept: connections }, this)
  }

  done(): number {
    return this.#done
  }

  onFree(connection: HttpConnection, at: number): void {
    if (!this.#closes) return connection.ask(at, at)
    this.#connect.record(at - connection.dialledAt)
    connection.askOnce()
  }

  onAnswer(connection: HttpConnection, at: number): void {
    if (!this.#closes) this.#done += 1
    this.#latency.record(at - connection.dueAt)
  }

  onEnd(_connection: HttpConnection, failure: string): void {
    if (failure !== '') this.errors.add(failure)
    else if (this.#closes) this.#done += 1
  }

  openWindow(): void {
    this.#connect.clear()
    this.#latency.clear()
  }

  /** What seems stuck is answered by then, or counted as an error. */
  closeWindow(): Promise<void> {
    return this.#pool.settleStuck()
  }

  findings(): Findings {
    const [connect, latency] = [this.#connect, this.#latency]
    return present({ connect: connect.percentiles(), latency: latency.percentiles() })
  }

  stop(): Promise<void> {
    return this.#pool.stop()
  }
}

/** All of them together may take so long, whatever becomes of them. */
const mostMs = 30_000

/** Dials each once, one after the other. */
export const dialEach = async (
  pages: readonly Page[],
): Promise<Omit<LoadAnswer, 'seconds'>> => {
  const errors = new ErrorCounts()
  const [connect, latency] = [new Timings(), new Timings()]
  const started = performance.now()
  let done = 0
  for (const [index, page] of pages.entries()) {
    if (performance.now() - started > mostMs) {
      errors.add('not tried', pages.length - index)
      break
    }
    const failure = await dialOnce(page, connect, latency)
    if (failure === '') done += 1
    else errors.add(failure)
  }
  return {
    done,
    errors: errors.counts,
    ...present({ connect: connect.percentiles(), latency: latency.percentiles() }),
    ...(done < pages.length && { tried: pages.length }),
  }
}

/** '' when it was answered. */
const dialOnce = (page: Page, connect: Timings, latency: Timings): Promise<string> =>
  new Promise(resolve => {
    const pool = new Pool(
      { line: lineTo(page), answerWithinMs },
      {
        onFree: (one, at) => {
          connect.record(at - one.dialledAt)
          one.askOnce()
        },
        onAnswer: ({ dialledAt }, at) => latency.record(at - dialledAt),
        onEnd: ({ isAnswered }, failure) => {
          void pool.stop()
          resolve(isAnswered ? '' : failure)
        },
      },
    )
    pool.add()
  })
