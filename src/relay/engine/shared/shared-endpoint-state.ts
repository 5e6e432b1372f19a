import { allClients, type Doubts, noDoubts } from '../../../balance/doubts.ts'
import { noReplies, type Replies, replyClients } from '../../../balance/replies.ts'
import {
  noCooldown,
  type Cooldown,
  noRecovery,
  type Recovery,
} from '../../../balance/cooldown.ts'
import type { Cell } from '../../../balance/cell.ts'
import { SlotPages } from './slot-pages.ts'

/** A state as a number of at most 48 bits, 0 for `none`. */
interface StateBits<State> {
  readonly none: State
  pack(state: State): number
  /** Not of 0. */
  unpack(bits: number): State
}

/*
 * A state in one 64-bit word, so that it is read and changed at once: from its low end 48 bits of
 * its own, and 16 of the generation of its slot.
 */
const generationShift = 48n
const ownBits = (1n << generationShift) - 1n

const stateOf = <State>(bits: StateBits<State>, word: bigint): State => {
  const own = Number(word & ownBits)
  return own === 0 ? bits.none : bits.unpack(own)
}

/** The state in a word of shared memory, whatever endpoint it is of. */
const readState = <State>(
  bits: StateBits<State>,
  words: BigInt64Array,
  at: number,
): State => stateOf(bits, Atomics.load(words, at))

/** None, for the next endpoint of the slot; of those before it no one can change it any more. */
const renewState = (words: BigInt64Array, at: number): void => {
  const generation = Atomics.load(words, at) >> generationShift
  Atomics.store(words, at, BigInt.asIntN(64, (generation + 1n) << generationShift))
}

/** A page of words, which can be read by halves: a whole one that is read is a new BigInt. */
interface WordPage {
  readonly buffer: SharedArrayBuffer
  readonly words: BigInt64Array
  readonly halves: Int32Array
}

/** A state of one endpoint, which all workers share. */
class SharedCell<State> implements Cell<State> {
  readonly #bits: StateBits<State>
  readonly #words: BigInt64Array
  readonly #halves: Int32Array
  readonly #at: number
  /** The word of an endpoint without anything to tell: the generation of the slot alone. */
  readonly #none: bigint
  readonly #noneFirst: number
  readonly #noneSecond: number

  /** To be made when the slot has been given to the endpoint, and before it is another's. */
  constructor(bits: StateBits<State>, { words, halves }: WordPage, at: number) {
    this.#bits = bits
    this.#words = words
    this.#halves = halves
    this.#at = at
    this.#none = Atomics.load(words, at) & ~ownBits
    const [first = 0, second = 0] = new Int32Array(BigInt64Array.of(this.#none).buffer)
    this.#noneFirst = first
    this.#noneSecond = second
  }

  read(): State {
    // First what is so nearly always: it is asked several times for each connection.
    if (this.#isNone) return this.#bits.none
    const word = Atomics.load(this.#words, this.#at)
    return this.#isOurs(word) ? stateOf(this.#bits, word) : this.#bits.none
  }

  /** By two reads: where both find its half it was so at one of them, as times only grow. */
  get #isNone(): boolean {
    const first = 2 * this.#at
    return (
      this.#halves[first] === this.#noneFirst &&
      this.#halves[first + 1] === this.#noneSecond
    )
  }

  change(change: (state: State) => State | undefined): boolean {
    for (;;) {
      const word = Atomics.load(this.#words, this.#at)
      if (!this.#isOurs(word)) return false
      const next = change(stateOf(this.#bits, word))
      if (next === undefined) return false
      const wanted = this.#none | BigInt(this.#bits.pack(next))
      const found = Atomics.compareExchange(this.#words, this.#at, word, wanted)
      if (found === word) return true
    }
  }

  #isOurs(word: bigint): boolean {
    return (word & ~ownBits) === this.#none
  }
}

const probedBit = 1 << 6
const cooldownTimeUnit = 1 << 7

/** From the low end 6 bits of failures, 1 whether it is probed, 41 of the time: 69 years of uptime. */
const cooldownBits: StateBits<Cooldown> = {
  none: noCooldown,
  pack: ({ until, failures, isProbed }) =>
    Math.ceil(until) * cooldownTimeUnit + (isProbed ? probedBit : 0) + failures,
  unpack: bits => ({
    until: Math.floor(bits / cooldownTimeUnit),
    failures: bits % probedBit,
    isProbed: bits % cooldownTimeUnit >= probedBit,
  }),
}

const weights = 1 << 3
const replyTimeUnit = weights * replyClients

/** From the low end 3 bits of the weight, 6 of the client, 39 of the time: 17 years of uptime. */
const replyBits: StateBits<Replies> = {
  none: noReplies,
  pack: ({ at, client, weight }) =>
    Math.floor(at) * replyTimeUnit + client * weights + weight,
  unpack: bits => ({
    at: Math.floor(bits / replyTimeUnit),
    client: Math.floor((bits % replyTimeUnit) / weights),
    weight: bits % weights,
  }),
}

const doubtTimeUnit = allClients + 1
const doubtTimeMs = 128

/** From the low end 14 bits of clients, 34 of the time in units of 128 ms. */
const doubtBits: StateBits<Doubts> = {
  none: noDoubts,
  pack: ({ clients, since }) => Math.floor(since / doubtTimeMs) * doubtTimeUnit + clients,
  unpack: bits => ({
    clients: bits % doubtTimeUnit,
    since: Math.floor(bits / doubtTimeUnit) * doubtTimeMs,
  }),
}

const recoveryTimeUnit = 1 << 1

/** From the low end 1 bit whether it is up, and the time; never 0, as time is not. */
const recoveryBits: StateBits<Recovery> = {
  none: noRecovery,
  pack: ({ since, isUp }) =>
    since === 0 ? 0 : Math.ceil(since) * recoveryTimeUnit + (isUp ? 1 : 0),
  unpack: bits => ({
    since: Math.floor(bits / recoveryTimeUnit),
    isUp: bits % recoveryTimeUnit === 1,
  }),
}

const cells = { cooldown: 0, replies: 1, doubts: 2, recovery: 3, count: 4 }

/** Cooldowns, replies, doubts and recoveries of endpoints, by their slots: one state for all workers. */
export class SharedEndpointState extends SlotPages<WordPage> {
  constructor() {
    super(cells.count, buffer => ({
      buffer,
      words: new BigInt64Array(buffer),
      halves: new Int32Array(buffer),
    }))
  }

  /** Of the endpoint which has the slot now, as all that follow. */
  cooldownOf(slot: number): SharedCell<Cooldown> {
    return this.#cellOf(cooldownBits, slot, cells.cooldown)
  }

  /** What came back from it. */
  repliesOf(slot: number): SharedCell<Replies> {
    return this.#cellOf(replyBits, slot, cells.replies)
  }

  /** Connections that it has not served. */
  doubtsOf(slot: number): SharedCell<Doubts> {
    return this.#cellOf(doubtBits, slot, cells.doubts)
  }

  /** Whether it is down, or has just come back. */
  recoveryOf(slot: number): SharedCell<Recovery> {
    return this.#cellOf(recoveryBits, slot, cells.recovery)
  }

  readCooldown(slot: number): Cooldown {
    if (!this.has(slot)) return noCooldown
    return readState(
      cooldownBits,
      this.pageOf(slot).words,
      this.offsetOf(slot) + cells.cooldown,
    )
  }

  /** For the next endpoint of the slot. */
  renew(slot: number): void {
    const start = this.offsetOf(slot)
    for (let cell = 0; cell < cells.count; cell += 1) {
      renewState(this.pageOf(slot).words, start + cell)
    }
  }

  #cellOf<S>(bits: StateBits<S>, slot: number, cell: number): SharedCell<S> {
    return new SharedCell(bits, this.pageOf(slot), this.offsetOf(slot) + cell)
  }
}
