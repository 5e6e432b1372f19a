import { type Linked, LinkedSet } from '../util/linked-set.ts'

/** A connection whose time is over goes once no byte of it has moved for so long. */
const quietMs = 1000
/** It goes even so when it has waited so long for that. */
const graceMs = 30_000
/** Between two checks while one waits for it. */
const checkMs = 250
/** Each one's time is shorter by up to this part of it. */
const jitter = 0.1

export interface Life<C> extends Linked<Life<C>> {
  readonly connection: C
  endsAt: number
  /** Its share of the jitter, from 0 to 1: the same after a change. */
  readonly share: number
  /** From the first check after its end on. */
  bytes: number
  movedAt: number
}

/** A connection that may have a lifetime. */
interface Mortal<C> {
  readonly acceptedAt: number
  /** Undefined: none. */
  life: Life<C> | undefined
}

/** A connection that is to end. */
export interface Overdue<C> {
  readonly connection: C
  /** No byte has moved for a while. */
  readonly isQuiet: boolean
}

/** For the record of its connection, which is reset: a FIN might make part of an answer all of it. */
export const endOfLife = (isQuiet: boolean): string =>
  isQuiet ? 'lifetime over' : 'lifetime over, still busy'

/**
 * Which connections have lasted as long as they may. Pure: told the time, in milliseconds. Each has
 * a time of its own, drawn at random from the last tenth, as connections of one moment would all be
 * made anew at one moment otherwise.
 */
export class Lifetimes<C extends Mortal<C>> {
  readonly #random: () => number
  readonly #movedBy: (connection: C) => number | undefined
  readonly #lives = new LinkedSet<Life<C>>()
  #nextCheck = Infinity

  /**
   * `random`: 0 <= n < 1. `movedBy`: the bytes that a connection has moved so far; undefined while
   * it is not connected, or holds some that have yet to be written.
   */
  constructor(random: () => number, movedBy: (connection: C) => number | undefined) {
    this.#random = random
    this.#movedBy = movedBy
  }

  /**
   * Undefined: any time will do. Of one that is known the new time counts from its accept too, but
   * many that are over by that do not end at once.
   */
  set(connection: C, lifetimeMs: number | undefined, now: number): void {
    if (lifetimeMs === undefined) return this.ended(connection)
    const share = connection.life?.share ?? this.#random()
    const spread = lifetimeMs * jitter * share
    const endsAt = Math.max(connection.acceptedAt + lifetimeMs - spread, now + spread)
    this.ended(connection)
    const seen = { bytes: 0, movedAt: -1, setNext: undefined, setPrevious: undefined }
    const life = { connection, endsAt, share, ...seen }
    connection.life = life
    this.#lives.add(life)
    this.#nextCheck = Math.min(this.#nextCheck, endsAt)
  }

  ended(connection: C): void {
    const { life } = connection
    if (life === undefined) return
    this.#lives.delete(life)
    connection.life = undefined
  }

  /** Milliseconds until `overdue` is to be asked again. */
  wait(now: number): number {
    return Math.max(this.#nextCheck - now, 0)
  }

  /** Those that are to end now; each is named again at each check until it has `ended`. */
  *overdue(now: number): Generator<Overdue<C>> {
    if (now < this.#nextCheck) return
    let nextEnd = Infinity
    for (const life of this.#lives) {
      nextEnd = Math.min(nextEnd, life.endsAt)
      if (now < life.endsAt) continue
      const isQuiet = this.#isQuiet(life, now)
      if (isQuiet || now - life.endsAt >= graceMs)
        yield { connection: life.connection, isQuiet }
    }
    // Tens of thousands may be known: as few checks as will do.
    this.#nextCheck = nextEnd === Infinity ? Infinity : Math.max(nextEnd, now + checkMs)
  }

  #isQuiet(life: Life<C>, now: number): boolean {
    const bytes = this.#movedBy(life.connection)
    if (bytes === undefined || life.movedAt < 0 || bytes !== life.bytes) {
      life.bytes = bytes ?? -1
      life.movedAt = now
      return false
    }
    return now - life.movedAt >= quietMs
  }
}
