const [lf, cr, colon, semicolon, blank] = [10, 13, 58, 59, 32]
const mostHeadBytes = 64 * 1024

/**
 * Finds where HTTP/1.1 responses end (RFC 9112, 6.3), of any status and by any server,
 * one after the other on one connection. It copies nothing and makes nothing, unless a
 * head comes in pieces or a body in chunks.
 */
export class ResponseReader {
  #part: 'head' | 'counted' | 'chunked' | 'until end' = 'head'
  #missing = 0
  #chunks: ChunkedBody | undefined
  /** What has come of a head that is not whole. */
  #pieces: Buffer | undefined
  #status = 0
  #closes = false

  /** That the server has said with the last response that it is going to close. */
  get closes(): boolean {
    return this.#closes
  }

  /** Why the last response is none to count: a gateway's word that it has none (5xx). */
  get complaint(): string {
    return this.#status >= 500 ? `status ${this.#status}` : ''
  }

  /** Takes what has come. A response is whole only when nothing is left over. */
  read(bytes: Uint8Array, length: number): 'more' | 'whole' | 'wrong' {
    let from = 0
    while (this.#part === 'head') {
      from = this.#readHead(bytes, from, length)
      if (from === -2) return 'wrong'
      if (from === -1) return 'more'
    }
    const end = this.#readBody(bytes, from, length)
    if (end === -1) return 'more'
    this.#part = 'head'
    return end === length ? 'whole' : 'wrong'
  }

  /** The server has ended: whether that makes the response whole. */
  end(): boolean {
    return this.#part === 'until end'
  }

  #readBody(bytes: Uint8Array, from: number, length: number): number {
    if (this.#part === 'until end') return -1
    if (this.#chunks !== undefined) return this.#chunks.read(bytes, from, length)
    const taken = Math.min(this.#missing, length - from)
    this.#missing -= taken
    return this.#missing === 0 ? from + taken : -1
  }

  /** Index after the head; -1 when it is not whole, -2 when it is none. */
  #readHead(bytes: Uint8Array, from: number, length: number): number {
    const earlier = this.#pieces
    if (earlier === undefined) {
      const end = this.#scanHead(bytes, from, length)
      if (end === -1) this.#pieces = Buffer.from(bytes.subarray(from, length))
      return end
    }
    const joined = Buffer.concat([earlier, bytes.subarray(from, length)])
    const end = this.#scanHead(joined, 0, joined.length)
    if (end === -1 && joined.length > mostHeadBytes) return -2
    this.#pieces = end === -1 ? joined : undefined
    return end < 0 ? end : end - earlier.length + from
  }

  #scanHead(bytes: Uint8Array, from: number, length: number): number {
    this.#missing = -1
    this.#chunks = undefined
    this.#closes = false
    let line = from
    for (let at = from; at < length; at += 1) {
      if (bytes[at] !== lf) continue
      const end = bytes[at - 1] === cr ? at - 1 : at
      if (end <= line && line > from) return this.#endHead(at + 1)
      if (line > from) this.#headerLine(bytes, line, end)
      else if (!this.#statusLine(bytes, line, end)) return -2
      line = at + 1
    }
    return -1
  }

  /** `HTTP/1.x NNN` and whatever else. */
  #statusLine(bytes: Uint8Array, line: number, end: number): boolean {
    if (end - line < 12 || !isWord(bytes, line, 'http/1.')) return false
    this.#status = numberAt(bytes, line + 9, line + 12)
    this.#closes = bytes[line + 7] === 0x30
    return this.#status >= 100
  }

  #headerLine(bytes: Uint8Array, line: number, end: number): void {
    if (bytes[line + 14] === colon && isWord(bytes, line, 'content-length'))
      this.#missing = numberAt(bytes, line + 15, end)
    else if (bytes[line + 17] === colon && isWord(bytes, line, 'transfer-encoding'))
      this.#chunks = new ChunkedBody()
    else if (bytes[line + 10] === colon && isWord(bytes, line, 'connection'))
      this.#closes = isConnectionClose(bytes, line + 11, end)
  }

  /** Chooses how the body ends. A provisional response (1xx) has another after it. */
  #endHead(end: number): number {
    if (this.#status < 200) return end
    if (this.#status === 204 || this.#status === 304) {
      this.#chunks = undefined
      this.#missing = 0
    }
    if (this.#chunks !== undefined) this.#part = 'chunked'
    else this.#part = this.#missing < 0 ? 'until end' : 'counted'
    return end
  }
}

/** More than any server sends in one chunk; what claims more is not HTTP. */
const mostBytes = 2 ** 40

/** Finds the end of a chunked body (RFC 9112, 7.1), however it is cut up. */
class ChunkedBody {
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
    if (byte === semicolon || byte === blank) {
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

/** Whether a word in lower case stands there, in any case. */
const isWord = (bytes: Uint8Array, at: number, word: string): boolean => {
  for (let index = 0; index < word.length; index += 1)
    if (((bytes[at + index] ?? 0) | 0x20) !== (word.charCodeAt(index) | 0x20))
      return false
  return true
}

/** The decimal number there, with blanks around it; -1 for anything else. */
const numberAt = (bytes: Uint8Array, from: number, end: number): number => {
  let value = -1
  for (let at = from; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === blank || byte === 9) continue
    if (byte < 48 || byte > 57) return -1
    value = Math.max(0, value) * 10 + (byte - 48)
  }
  return value
}

const isConnectionClose = (bytes: Uint8Array, from: number, end: number): boolean => {
  let at = from
  while (at < end && bytes[at] === blank) at += 1
  return isWord(bytes, at, 'close')
}
