import { mostObjectBytes, TooLargeError } from './object-limit.ts'

const lineFeed = 0x0a

/** Lines of a body that comes in chunks. */
export class LineSplitter {
  #parts: Buffer[] = []
  #size = 0

  /** Bytes of a line that has not ended yet. */
  get rest(): number {
    return this.#size
  }

  /** The lines that end in this chunk, without empty ones. Throws when one is too long. */
  *push(chunk: Buffer): Generator<string, void, void> {
    let start = 0
    for (;;) {
      const end = chunk.indexOf(lineFeed, start)
      if (end === -1) break
      const line = this.#take(chunk.subarray(start, end))
      start = end + 1
      if (line.trim() !== '') yield line
    }
    this.#keep(chunk.subarray(start))
  }

  #take(last: Buffer): string {
    if (this.#size === 0) return last.toString('utf8')
    this.#keep(last)
    const line = Buffer.concat(this.#parts).toString('utf8')
    this.#parts = []
    this.#size = 0
    return line
  }

  #keep(part: Buffer): void {
    if (part.length === 0) return
    this.#size += part.length
    if (this.#size > mostObjectBytes) throw new TooLargeError()
    this.#parts.push(part)
  }
}
