import { parseJson } from '../../util/printable.ts'
import { UsherError } from '../../util/usher-error.ts'

/**
 * The longest JSON of one object or watch event. The API server takes no request over
 * 3 MiB, and etcd no value over 1.5 MiB, which as JSON is about twice that.
 */
const mostObjectBytes = 4 * 1024 * 1024
const tooLarge = (): Error => new UsherError('MALFORMED', 'an object of more than 4 MiB')

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
    if (this.#size > mostObjectBytes) throw tooLarge()
    this.#parts.push(part)
  }
}

/** What a list says besides its items. */
export interface ListEnvelope {
  readonly metadata?: { readonly resourceVersion?: unknown; readonly continue?: unknown }
}

/** kind, apiVersion, metadata. */
const mostEnvelopeBytes = 65_536

const quote = 0x22
const backslash = 0x5c

/**
 * Takes a List apart while it arrives: each item is parsed on its own, so that neither
 * memory nor the event loop feels how long the list is (servers may ignore `limit`).
 */
export class ListParser {
  readonly #item: (item: unknown) => void
  /** Everything outside of items. */
  readonly #envelope: Buffer[] = []
  #envelopeSize = 0
  #parts: Buffer[] = []
  #size = 0
  #depth = 0
  #inString = false
  #escaped = false
  #inItems = false
  #inItem = false
  /** The start of the last string at depth 1: the key that a value belongs to. */
  #word = ''

  constructor(item: (item: unknown) => void) {
    this.#item = item
  }

  /** Throws when it is not JSON, or an item is too large. */
  push(chunk: Buffer): void {
    let from = 0
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i] as number
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false
        else if (byte === backslash) this.#escaped = true
        else if (byte === quote) this.#inString = false
        else if (this.#depth === 1 && this.#word.length < 8)
          this.#word += String.fromCharCode(byte)
      } else if (byte === quote) {
        this.#inString = true
        if (this.#depth === 1) this.#word = ''
      } else if (byte === 0x7b || byte === 0x5b) {
        // { or [
        if (this.#inItems && this.#depth === 2 && byte === 0x7b) {
          from = i
          this.#inItem = true
        } else if (this.#depth === 1 && byte === 0x5b && this.#word === 'items') {
          this.#inItems = true
          this.#outside(chunk.subarray(from, i + 1))
        }
        this.#depth += 1
      } else if (byte === 0x7d || byte === 0x5d) {
        // } or ]
        this.#depth -= 1
        if (this.#inItem && this.#depth === 2) {
          this.#emit(chunk.subarray(from, i + 1))
          this.#inItem = false
        } else if (this.#inItems && this.#depth === 1) {
          this.#inItems = false
          from = i
        }
      }
    }
    const rest = chunk.subarray(from)
    if (this.#inItem) this.#keep(rest)
    else if (!this.#inItems) this.#outside(rest)
  }

  /** The list without its items. Throws when it was not all there. */
  end(): ListEnvelope {
    const envelope = parseJson(Buffer.concat(this.#envelope).toString('utf8'))
    if (typeof envelope === 'object' && envelope !== null) return envelope
    throw new Error('the list ended early, or the answer is not a list')
  }

  #emit(last: Buffer): void {
    if (this.#size > 0) {
      this.#keep(last)
      last = Buffer.concat(this.#parts)
      this.#parts = []
      this.#size = 0
    }
    this.#item(JSON.parse(last.toString('utf8')))
  }

  #keep(part: Buffer): void {
    this.#size += part.length
    if (this.#size > mostObjectBytes) throw tooLarge()
    this.#parts.push(part)
  }

  #outside(part: Buffer): void {
    this.#envelopeSize += part.length
    if (this.#envelopeSize > mostEnvelopeBytes)
      throw new Error('the answer is not a list of objects')
    this.#envelope.push(part)
  }
}
