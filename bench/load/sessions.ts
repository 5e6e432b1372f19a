import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../services.ts'
import { Schedule } from './fixed-rate.ts'
import { ErrorCounts, errorName, present, Timings, watchCpu } from './load.ts'
import type { LoadAnswer, Pids, Sessions, Visit } from './question.ts'

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
  const found = await new Course(asked, seconds).run()
  return { ...watch(), ...found }
}

class Course {
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
    const lastsMs = asked.count === undefined ? seconds * 1000 : Infinity
    this.#end = performance.now() + lastsMs
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
        await session.ask(startup, answerIn, timeoutMs)
        await this.#askWho(session, (this.#sessions += 1), end - performance.now())
      } else {
        const question = speaks === 'asks first' ? 'hello\n' : ''
        await session.ask(question, lineIn, timeoutMs)
      }
    } finally {
      session.end(speaks === 'postgres' ? terminate : '')
    }
  }

  /** Asks on and on; its end is no failure, it is begun again. */
  async #keep(): Promise<void> {
    const { to, timeoutMs } = this.#asked
    while (performance.now() < this.#end) {
      const session = new Session(to)
      const id = (this.#sessions += 1)
      try {
        await session.ask(startup, answerIn, timeoutMs)
        while (performance.now() < this.#end) {
          await this.#askWho(session, id, timeoutMs)
          await sleep(keptPauseMs)
        }
      } catch (error) {
        if (errorName(error) === 'ECONNRESET') this.#keptResets.push(performance.now())
        await sleep(keptPauseMs)
      } finally {
        session.end(terminate)
      }
    }
  }

  async #askWho(session: Session, id: number, timeoutMs: number): Promise<void> {
    const server = await session.ask(whoQuery, answerIn, timeoutMs)
    if (this.#asked.tellsVisits === true)
      this.#visits.push({ session: id, server, at: Date.now() })
  }
}

/** The answer, once what has been heard holds it; throws for what is no answer. */
type Read = (heard: Buffer) => string | undefined

const lineIn: Read = heard =>
  heard.includes('\n') ? heard.toString('latin1') : undefined

/** A connection on which one question at a time is asked. */
class Session {
  readonly #socket: Socket
  #heard = Buffer.alloc(0)
  #progress: () => void = () => undefined
  #failure = ''

  constructor({ address, port }: Endpoint) {
    this.#socket = connect({ host: address, port, noDelay: true })
    this.#socket.on('data', heard => {
      this.#heard = Buffer.concat([this.#heard, heard])
      this.#progress()
    })
    this.#socket.on('error', error => this.#fail(errorName(error)))
    this.#socket.on('close', () => this.#fail('closed early'))
    this.#socket.on('end', () => this.#fail('closed early'))
  }

  /** Rejects with the reason in a word or two, `timeout` after `timeoutMs`. */
  ask(question: string | Buffer, read: Read, timeoutMs: number): Promise<string> {
    this.#heard = Buffer.alloc(0)
    if (question.length > 0 && this.#failure === '') this.#socket.write(question)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail('timeout'), timeoutMs)
      this.#progress = () => {
        const answer = this.#answer(read)
        if (answer === undefined && this.#failure === '') return
        clearTimeout(timer)
        this.#progress = () => undefined
        if (answer === undefined) reject(new Error(this.#failure))
        else resolve(answer)
      }
      this.#progress()
    })
  }

  end(lastWords: string | Buffer): void {
    if (lastWords.length > 0 && this.#failure === '') this.#socket.write(lastWords)
    // At once, so that nothing of it is left for the end of the load.
    this.#socket.destroySoon()
  }

  #answer(read: Read): string | undefined {
    try {
      return read(this.#heard)
    } catch (error) {
      this.#failure = errorName(error)
      return undefined
    }
  }

  #fail(failure: string): void {
    this.#failure ||= failure
    this.#progress()
    if (failure === 'timeout') this.#socket.destroy()
  }
}

/* As much of PostgreSQL's protocol 3.0 as a client without a password needs. */

const message = (type: string, text: string): Buffer => {
  const body = Buffer.from(text, 'latin1')
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

/** To be let in as `postgres`. */
const startup = message('', '\0\x03\0\0user\0postgres\0database\0postgres\0\0')
const whoQuery = message('Q', 'show cluster_name\0')
const terminate = message('X', '')

/**
 * What a server has answered, once it is ready for the next query (ReadyForQuery): the first
 * column of the last row, '' without one. Throws `PostgreSQL 57P03` for an error.
 */
const answerIn: Read = heard => {
  let value = ''
  for (let at = 0; at + 5 <= heard.length;) {
    const type = String.fromCharCode(heard[at] ?? 0)
    const end = at + 1 + heard.readInt32BE(at + 1)
    if (end > heard.length) return undefined
    const body = heard.subarray(at + 5, end)
    if (type === 'Z') return value
    if (type === 'E') throw new Error(`PostgreSQL ${codeOf(body)}`)
    if (type === 'D') value = body.subarray(6, 6 + body.readInt32BE(2)).toString('latin1')
    at = end
  }
  return undefined
}

/** The SQLSTATE among the fields of an ErrorResponse. */
const codeOf = (body: Buffer): string =>
  /(?:^|\0)C([^\0]*)/.exec(body.toString('latin1'))?.[1] ?? 'error'
