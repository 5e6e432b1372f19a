const [lf, cr, semicolon] = [10, 13, 59]
/** More than any server sends in one chunk; what claims more is not HTTP. */
const mostBytes = 2 ** 40

/** Finds the end of a chunked body (RFC 9112, 7.1), however it is cut up. */
export class ChunkedBody {
  #part: 'size' | 'extension' | 'data' | 'data end' | 'trailer' = 'size'
  #missing = 0
  #digits = 0
  #lineBytes = 0

  /** Index after the body's end; -1 when that is still to come, -2 when it is wrong. */
  read(bytes: Uint8Array, from: number, length: number): number {
    for (let at = from; at < length; at += 1) {
      if (this.#part === 'data') {
        const skipped = Math.min(this.#missing, length - at)
        this.#missing -= skipped
        if (this.#missing === 0) this.#part = 'data end'
        at += skipped - 1
        continue
      }
      const end = this.#take(bytes[at] ?? 0)
      if (end === 'whole') return at + 1
      if (end === 'wrong') return -2
    }
    return -1
  }

  #take(byte: number): 'more' | 'whole' | 'wrong' {
    if (byte === cr) return 'more'
    if (byte === lf) return this.#endLine()
    if (this.#part === 'trailer') this.#lineBytes += 1
    if (this.#part === 'data end') return 'wrong'
    if (this.#part !== 'size') return 'more'
    if (byte === semicolon || byte === 32) {
      this.#part = 'extension'
      return 'more'
    }
    const digit = Number.parseInt(String.fromCharCode(byte), 16)
    this.#missing = this.#missing * 16 + digit
    this.#digits += 1
    return this.#missing <= mostBytes ? 'more' : 'wrong'
  }

  #endLine(): 'more' | 'whole' | 'wrong' {
    if (this.#part === 'data end') {
      this.#part = 'size'
      this.#digits = 0
      return 'more'
    }
    if (this.#part === 'trailer') {
      const isEmpty = this.#lineBytes === 0
      this.#lineBytes = 0
      return isEmpty ? 'whole' : 'more'
    }
    if (this.#digits === 0) return 'wrong'
    this.#part = this.#missing === 0 ? 'trailer' : 'data'
    return 'more'
  }
}
