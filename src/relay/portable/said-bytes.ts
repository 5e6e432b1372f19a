/** All that a client has said, for as long as that may have to be said to another endpoint. */
export class SaidBytes {
  readonly #most: number
  #chunks: Buffer[] | undefined
  #bytes = 0

  /** Beyond `most` bytes nothing is kept any more. */
  constructor(most: number) {
    this.#most = most
    this.#chunks = most > 0 ? [] : undefined
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether all of it is here, and that is something. */
  get isRepeatable(): boolean {
    return this.#chunks !== undefined && this.#bytes > 0
  }

  add(chunk: Buffer): void {
    if (this.#chunks === undefined) return
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes > this.#most) this.#chunks = undefined
  }

  get chunks(): readonly Buffer[] {
    return this.#chunks ?? []
  }

  forget(): void {
    this.#chunks = undefined
  }
}
