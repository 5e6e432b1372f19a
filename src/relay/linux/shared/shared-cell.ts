import type { Cell } from '../../../balance/cell.ts'

/** A state as a number of at most 48 bits, 0 for `none`. */
export interface StateBits<State> {
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
export const readState = <State>(
  bits: StateBits<State>,
  words: BigInt64Array,
  at: number,
): State => stateOf(bits, Atomics.load(words, at))

/** None, for the next endpoint of the slot; of those before it no one can change it any more. */
export const renewState = (words: BigInt64Array, at: number): void => {
  const generation = Atomics.load(words, at) >> generationShift
  Atomics.store(words, at, BigInt.asIntN(64, (generation + 1n) << generationShift))
}

/** A state of one endpoint, which all workers share. */
export class SharedCell<State> implements Cell<State> {
  readonly #bits: StateBits<State>
  readonly #words: BigInt64Array
  readonly #at: number
  /** The word of an endpoint without anything to tell: the generation of the slot alone. */
  readonly #none: bigint

  /** To be made when the slot has been given to the endpoint, and before it is another's. */
  constructor(bits: StateBits<State>, words: BigInt64Array, at: number) {
    this.#bits = bits
    this.#words = words
    this.#at = at
    this.#none = Atomics.load(words, at) & ~ownBits
  }

  read(): State {
    const word = Atomics.load(this.#words, this.#at)
    // First what is so nearly always.
    return word === this.#none || !this.#isOurs(word)
      ? this.#bits.none
      : stateOf(this.#bits, word)
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
