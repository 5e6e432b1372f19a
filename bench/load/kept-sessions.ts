import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../services.ts'
import { destroyAll, ErrorCounts, errorName, present, Timings } from './load.ts'
import type { KeptSessions, LoadAnswer } from './question.ts'

/** Being opened, or asked for an echo, at a time: below every listen backlog. */
const parallel = 64
/** When so many have failed one after the other, the rest is not tried. */
const hopeless = 64
const answersWithinMs = 5000
const lookMs = 1

const tickMs = 1
/** A session that is busy, and none of the busiest, has its turn each so many ticks. */
const turns = 50

/** Bytes that are on their way: more than any pause that is borne lets pile up. */
const rooms: Readonly<Record<Kind, number>> = { idle: 8, busy: 256, busiest: 8192 }
/** Bytes count up to this. A prime, so that a lost block of any usual size is seen. */
const modulus = 251

/** The sessions of this process, if any are open: they outlast the question that has opened them. */
let kept: Keeper | undefined

/** Resolves with what has become of them since the last question, when those that are wanted are open. */
export const askKeptSessions = async (asked: KeptSessions): Promise<LoadAnswer> => {
  kept ??= new Keeper(asked)
  const { found } = kept
  const answer = await kept.look()
  if (asked.idle + asked.busy + asked.busiest > 0) await kept.open()
  else {
    await kept.close()
    kept = undefined
  }
  return { ...answer, errors: found.counts }
}

class Keeper {
  /** Of the question that is being answered. */
  found = new ErrorCounts()
  readonly #to: Endpoint
  readonly #places: Place[]
  #ticker: NodeJS.Timeout | undefined
  #late = new Timings()
  #openedAt = performance.now()

  constructor({ to, ...wanted }: KeptSessions) {
    this.#to = to
    this.#places = mixed(wanted)
  }

  async look(): Promise<Omit<LoadAnswer, 'errors'>> {
    clearInterval(this.#ticker)
    const pausesOf = this.#sessions('busiest').map(session => session.pause())
    const late = this.#late.percentiles()
    const sessions = this.#sessions()
    await Promise.all(sessions.map(session => session.emptied()))
    await atATime(sessions, session => session.echo())
    const alive = sessions.filter(({ failure }) => failure === '')
    for (const { failure } of sessions) if (failure !== '') this.found.add(failure)
    const pauses = pausesOf.filter(pause => pause !== undefined)
    return {
      done: alive.length,
      tried: sessions.length,
      seconds: (performance.now() - this.#openedAt) / 1000,
      pauses,
      ...present({ late }),
    }
  }

  /** Those that are missing, each of them once. */
  async open(): Promise<void> {
    const missing = this.#places.filter(({ session }) => session?.failure !== '')
    for (const place of missing) place.session = undefined
    let failedInARow = 0
    await atATime(missing, async place => {
      if (failedInARow >= hopeless) return
      const session = new Session(this.#to, rooms[place.kind])
      await session.echo()
      if (session.failure === '') place.session = session
      else this.found.add(`not opened: ${session.failure}`)
      failedInARow = session.failure === '' ? 0 : failedInARow + 1
    })
    this.found = new ErrorCounts()
    this.#late.clear()
    this.#openedAt = performance.now()
    for (const { session } of this.#places) session?.startCounting()
    this.#tick()
  }

  #tick(): void {
    const busiest = this.#sessions('busiest')
    const busy = this.#sessions('busy')
    let [tick, last] = [0, performance.now()]
    this.#ticker = setInterval(() => {
      const now = performance.now()
      this.#late.record(now - last - tickMs)
      last = now
      for (const session of busiest) session.send(now)
      for (let at = tick % turns; at < busy.length; at += turns) busy[at]?.send(now)
      tick += 1
    }, tickMs)
  }

  #sessions(kind?: Kind): Session[] {
    return this.#places.flatMap(({ kind: own, session }) =>
      session === undefined || (kind !== undefined && own !== kind) ? [] : [session],
    )
  }

  close(): Promise<void> {
    return destroyAll(this.#sessions().map(({ socket }) => socket))
  }
}

type Kind = 'idle' | 'busy' | 'busiest'

interface Place {
  readonly kind: Kind
  session?: Session | undefined
}

const evenly = (kind: Kind, count: number) =>
  Array.from({ length: count }, (_, i) => ({ kind, at: (i + 0.5) / count }))

/** The few are spread over the many, as they come to be where nothing orders them. */
const mixed = ({ idle, busy, busiest }: Omit<KeptSessions, 'to'>): Place[] => {
  const all = [
    ...evenly('idle', idle),
    ...evenly('busy', busy),
    ...evenly('busiest', busiest),
  ]
  return all.toSorted((one, other) => one.at - other.at).map(({ kind }) => ({ kind }))
}

/** So many at a time. */
const atATime = async <T>(
  all: readonly T[],
  work: (one: T) => Promise<void>,
): Promise<void> => {
  let next = 0
  const walk = async (): Promise<void> => {
    for (;;) {
      const one = all[(next += 1) - 1]
      if (one === undefined) return
      await work(one)
    }
  }
  await Promise.all(Array.from({ length: parallel }, walk))
}

/** A connection to an echo, with bytes that have to come back as they were sent. */
class Session {
  readonly socket: Socket
  /** Why it is over; '' while it is not. */
  failure = ''
  readonly #sentAt: Float64Array
  #sent = 0
  #heard = 0
  #longest = 0

  constructor({ address, port }: Endpoint, room: number) {
    this.#sentAt = new Float64Array(room)
    this.socket = connect({ host: address, port, noDelay: true })
    this.socket.on('data', heard => this.#hear(heard))
    this.socket.on('error', error => this.#fail(errorName(error)))
    this.socket.on('end', () => this.#fail('closed early'))
    this.socket.on('close', () => this.#fail('closed early'))
  }

  send(now: number): void {
    if (this.failure !== '' || this.#sent - this.#heard >= this.#sentAt.length) return
    this.#sentAt[this.#sent % this.#sentAt.length] = now
    this.socket.write(Buffer.of(this.#sent % modulus))
    this.#sent += 1
  }

  startCounting(): void {
    this.#longest = 0
  }

  /** Since counting was started; undefined when it is over. */
  pause(): number | undefined {
    if (this.failure !== '') return undefined
    this.#count(performance.now())
    return this.#longest
  }

  /** Sends a byte and has it back, or has failed. */
  async echo(): Promise<void> {
    this.send(performance.now())
    await this.emptied()
  }

  /** All that was sent has come back, or it has failed. */
  async emptied(): Promise<void> {
    const until = performance.now() + answersWithinMs
    while (this.failure === '' && this.#heard < this.#sent) {
      if (performance.now() > until) return this.#fail('no echo')
      await sleep(lookMs)
    }
  }

  #hear(heard: Buffer): void {
    const now = performance.now()
    for (const byte of heard) {
      if (this.#heard === this.#sent || byte !== this.#heard % modulus)
        return this.#fail('wrong byte')
      this.#count(now)
      this.#heard += 1
    }
  }

  /** How long the byte that is next to come back has been on its way. */
  #count(now: number): void {
    if (this.#heard === this.#sent) return
    this.#longest = Math.max(
      this.#longest,
      now - (this.#sentAt[this.#heard % this.#sentAt.length] ?? now),
    )
  }

  #fail(why: string): void {
    this.failure ||= why
    this.socket.destroy()
  }
}
