import { GrowingBytes } from '../../util/growing-bytes.ts'

/** All that a client has said, for as long as that may have to be said to another endpoint. */
export class SaidBytes {
  readonly #most: number
  #said: GrowingBytes | undefined

  /** Beyond `most` bytes nothing is kept any more. */
  constructor(most: number) {
    this.#most = most
    this.#said = most > 0 ? new GrowingBytes(most) : undefined
  }

  /** Whether all of it is here, and that is something. */
  get isRepeatable(): boolean {
    return this.#said !== undefined && this.#said.length > 0
  }

  get bytes(): Buffer | undefined {
    return this.#said?.bytes
  }

  /** A copy: a chunk may be a small part of a large buffer. */
  add(chunk: Buffer): void {
    if (this.#said === undefined) return
    if (this.#said.length + chunk.length > this.#most) this.#said = undefined
    else this.#said.add(chunk)
  }

  /** What is here, if it is all and is something: for another endpoint, and here no more. */
  take(): GrowingBytes | undefined {
    const said = this.isRepeatable ? this.#said : undefined
    this.forget()
    return said
  }

  forget(): void {
    this.#said = undefined
  }
}
