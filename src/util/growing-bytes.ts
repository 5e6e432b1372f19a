const least = 256

/**
 * Bytes that come piece by piece, in one buffer that doubles: many small pieces cost no more time
 * or memory than a few large ones.
 */
export class GrowingBytes {
  #buffer = nothing
  #length = 0
  readonly #most: number

  /** `most`: bytes that it may take, which the caller sees to. */
  constructor(most: number) {
    this.#most = most
  }

  get length(): number {
    return this.#length
  }

  /** The memory that it takes up. */
  get capacity(): number {
    return this.#buffer.length
  }

  /** A view, until more is added. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length
    if (length > this.#buffer.length) this.#grow(length)
    piece.copy(this.#buffer, this.#length)
    this.#length = length
  }

  #grow(length: number): void {
    const doubled = Math.max(least, length, this.#buffer.length * 2)
    // Not of Node's pool: it takes up what it holds.
    const buffer = Buffer.allocUnsafeSlow(Math.max(length, Math.min(doubled, this.#most)))
    this.#buffer.copy(buffer, 0, 0, this.#length)
    this.#buffer = buffer
  }
}

const nothing = Buffer.alloc(0)
