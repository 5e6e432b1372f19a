/** Walks over a message of RFC 1035. Throws an Error in words where it ends too early. */
export class WireReader {
  readonly #message: Buffer
  #at = 0

  constructor(message: Buffer) {
    this.#message = message
  }

  get at(): number {
    return this.#at
  }

  u16(): number {
    return this.#message.readUInt16BE(this.#pass(2))
  }

  u32(): number {
    return this.#message.readUInt32BE(this.#pass(4))
  }

  bytes(length: number): Buffer {
    const from = this.#pass(length)
    return this.#message.subarray(from, from + length)
  }

  /** In lower case, without a dot at the end, bytes that are odd in a name as `\DDD`. */
  name(): string {
    const { labels, end } = this.#labels(this.#at)
    this.#at = end
    return labels.join('.')
  }

  /** The place where this one was, and from where it goes on. */
  #pass(length: number): number {
    const from = this.#at
    if (from + length > this.#message.length) throw new Error('it ends too early')
    this.#at += length
    return from
  }

  #labels(start: number): { labels: string[]; end: number } {
    const message = this.#message
    const labels: string[] = []
    let size = 1
    let end = -1
    /** Where the part began that is being read: pointers go before it, so they end. */
    let part = start
    for (let at = start; ;) {
      const length = message[at]
      if (length === undefined) throw new Error('a name ends too early')
      if (length >= 0xc0) {
        const target = ((length & 0x3f) << 8) | (message[at + 1] ?? 0)
        if (end < 0) end = at + 2
        if (target >= part) throw new Error('a name points to itself or beyond')
        part = target
        at = target
        continue
      }
      if (length > 63) throw new Error('a name has a label of an unknown kind')
      if (length === 0) return { labels, end: end < 0 ? at + 1 : end }
      size += length + 1
      if (size > 255) throw new Error('a name is longer than 255 bytes')
      if (at + 1 + length > message.length) throw new Error('a name ends too early')
      labels.push(labelText(message.subarray(at + 1, at + 1 + length)))
      at += 1 + length
    }
  }
}

/** A dot or a backslash within a label is odd, too: as text it would read as another name. */
const labelText = (label: Buffer): string =>
  label
    .toString('latin1')
    .toLowerCase()
    .replaceAll(
      /[^!-~]|[.\\]/g,
      char => `\\${String(char.charCodeAt(0)).padStart(3, '0')}`,
    )
