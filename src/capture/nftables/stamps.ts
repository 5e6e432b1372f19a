import { randomInt } from 'node:crypto'

/** More than are ever under way; older ones are of transactions that failed. */
const mostStamps = 64

/**
 * A number of its own in each of Usher's transactions, by which `nft monitor` shows whose
 * it was. The process id that it shows is the host's, which a process in a container
 * does not know of itself or its children.
 */
export class Stamps {
  readonly #issued = new Set<string>()

  /** As nft reads and writes it. */
  next(): string {
    const stamp = `0x${randomInt(1, 2 ** 32)
      .toString(16)
      .padStart(8, '0')}`
    this.#issued.add(stamp)
    const [oldest] = this.#issued
    if (oldest !== undefined && this.#issued.size > mostStamps)
      this.#issued.delete(oldest)
    return stamp
  }

  /** Whether it is Usher's; once, for a restored backup brings old ones back. */
  take(stamp: string): boolean {
    return this.#issued.delete(stamp)
  }
}
