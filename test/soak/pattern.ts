import { Random } from '../fault-run/random.ts'

/** Prime, so that bytes that have moved by a page or a buffer are not the right ones. */
const period = 65_521

/** The most that `pattern` gives at once. */
export const mostBytes = 65_536

const makeBlock = (): Buffer => {
  const random = new Random(1)
  const once = Buffer.from(Array.from({ length: period }, () => random.between(0, 255)))
  return Buffer.concat([once, once, once]).subarray(0, period + mostBytes)
}

const block = makeBlock()

/** Bytes `from` on of the endless stream of that seed; at most `mostBytes`. */
export const pattern = (seed: number, from: number, length: number): Buffer => {
  const at = (seed + from) % period
  return block.subarray(at, at + Math.min(length, mostBytes))
}

/** What has come of the stream of a seed, in pieces of any length. */
export class PatternCheck {
  readonly #seed: number
  received = 0
  /** Where the first wrong byte was; -1 while all were right. */
  wrongAt = -1

  constructor(seed: number) {
    this.#seed = seed
  }

  take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += mostBytes) {
      const piece = chunk.subarray(at, at + mostBytes)
      const right = pattern(this.#seed, this.received, piece.length)
      if (this.wrongAt < 0 && !piece.equals(right)) this.wrongAt = this.received
      this.received += piece.length
    }
  }
}
