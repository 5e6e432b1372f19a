import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { ErrorCounts, errorName } from './load.ts'
import { watchCpu } from './measure.ts'
import { answerIn, query, startup, terminate } from './postgres-protocol.ts'
import type { LoadAnswer, Pids, Sessions, Visit } from './question.ts'
import { Schedule } from './schedule.ts'
import { Session } from './session.ts'
import { present, Timings } from './timings.ts'

/** Between the questions of a session that is kept, and before it is begun again. */
const keptPauseMs = 100

/** Connections that are reset in one go are heard of within this. */
const togetherMs = 50

/** Clients with short sessions, and what became of them. */
export const runSessions = async (
  asked: Sessions,
  seconds: number,
  pids: Pids,
): Promise<LoadAnswer> => {
  const watch = watchCpu(pids)
  const course = new SessionsCourse(asked, seconds)
  const findings = await course.run()
  return { ...watch(), ...findings }
}

class SessionsCourse {
  readonly #asked: Sessions
  readonly #end: number
  readonly #errors = new ErrorCounts()
  readonly #latency = new Timings()
  readonly #visits: Visit[] = []
  /** When short sessions were reset, and when those that are kept. */
  readonly #resets: number[] = []
  readonly #keptResets: number[] = []
  #tried = 0
  #done = 0
  #sessions = 0

  constructor(asked: Sessions, seconds: number) {
    this.#asked = asked
    this.#end =
      performance.now() + (asked.count === undefined ? seconds * 1000 : Infinity)
  }

  async run(): Promise<Omit<LoadAnswer, 'seconds'>> {
    const { clients, kept = 0 } = this.#asked
    await Promise.all([
      this.#come(),
      ...Array.from({ length: clients }, () => this.#client()),
      ...Array.from({ length: kept }, () => this.#keep()),
    ])
    return {
      done: this.#done,
      tried: this.#tried,
      errors: this.#errors.counts,
      ...(this.#visits.length > 0 && { visits: this.#visits }),
      ...(kept > 0 && { resetTogether: this.#resetTogether() }),
      ...present({ latency: this.#latency.percentiles() }),
    }
  }

  async #client(): Promise<void> {
    const { count = Infinity, pauseMs } = this.#asked
    while (this.#tried < count && performance.now() < this.#end) {
      await this.#visit()
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }

  async #come(): Promise<void> {
    const { perSecond } = this.#asked
    if (perSecond === undefined) return
    const schedule = new Schedule(perSecond)
    schedule.startAt(performance.now())
    const visits: Promise<void>[] = []
    for (;;) {
      const dueAt = schedule.dueAt(visits.length)
      if (dueAt >= this.#end) break
      await sleep(Math.max(0, dueAt - performance.now()))
      visits.push(this.#visit())
    }
    await Promise.all(visits)
  }

  /** What becomes of one session. */
  async #visit(): Promise<void> {
    this.#tried += 1
    const startedAt = performance.now()
    try {
      await this.#session()
      this.#done += 1
      this.#latency.record(performance.now() - startedAt)
    } catch (error) {
      const name = errorName(error)
      this.#errors.add(name)
      if (name === 'ECONNRESET') this.#resets.push(performance.now())
    }
  }

  #resetTogether(): number {
    const isWithKept = (at: number): boolean =>
      this.#keptResets.some(kept => Math.abs(kept - at) < togetherMs)
    return this.#resets.filter(isWithKept).length
  }

  /** From dialling to the answer, in all at most `timeoutMs`. */
  async #session(): Promise<void> {
    const { to, speaks, timeoutMs } = this.#asked
    const session = new Session(to)
    const end = performance.now() + timeoutMs
    try {
      if (speaks === 'postgres') {
        await session.ask(startup(), answerIn, timeoutMs)
        await this.#askWho(session, (this.#sessions += 1), end - performance.now())
      } else {
        const question = speaks === 'asks first' ? 'hello\n' : ''
        await session.ask(question, lineIn, timeoutMs)
      }
    } finally {
      session.end(speaks === 'postgres' ? terminate() : '')
    }
  }

  /** Asks on and on; its end is no failure, it is begun again. */
  async #keep(): Promise<void> {
    const { to, timeoutMs } = this.#asked
    while (performance.now() < this.#end) {
      const session = new Session(to)
      const id = (this.#sessions += 1)
      try {
        await session.ask(startup(), answerIn, timeoutMs)
        while (performance.now() < this.#end) {
          await this.#askWho(session, id, timeoutMs)
          await sleep(keptPauseMs)
        }
      } catch (error) {
        if (errorName(error) === 'ECONNRESET') this.#keptResets.push(performance.now())
        await sleep(keptPauseMs)
      } finally {
        session.end(terminate())
      }
    }
  }

  async #askWho(session: Session, id: number, timeoutMs: number): Promise<void> {
    const server = await session.ask(query('show cluster_name'), answerIn, timeoutMs)
    if (this.#asked.tellsVisits === true)
      this.#visits.push({ session: id, server, at: Date.now() })
  }
}

const lineIn = (heard: Buffer): string | undefined =>
  heard.includes('\n') ? heard.toString('latin1') : undefined
