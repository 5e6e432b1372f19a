import { addressText } from '../../../util/ip.ts'
import { messageOf } from '../../../util/usher-error.ts'

/** Types of records that can be asked for, by their numbers on the wire (RFC 1035, 2782, 3596). */
export const questionTypes = { A: 1, AAAA: 28, SRV: 33 } as const
export type QuestionType = keyof typeof questionTypes

export interface Question {
  /** Labels of letters, digits, `-` and `_`; a dot at the end may be there. */
  readonly name: string
  readonly type: QuestionType
}

interface AddressData {
  readonly type: 'A' | 'AAAA'
  readonly address: string
}

interface CnameData {
  readonly type: 'CNAME'
  readonly target: string
}

export interface SrvData {
  readonly type: 'SRV'
  readonly priority: number
  readonly weight: number
  readonly port: number
  /** '' for the root, by which a name says that the service is not there. */
  readonly target: string
}

type RecordData = AddressData | CnameData | SrvData

/** A record that Usher has use for. Names are in lower case, without a dot at the end. */
export type DnsRecord = RecordData & {
  readonly name: string
  /** In seconds. */
  readonly ttl: number
}

export interface Answer {
  /** More than fits: the question is to be asked again over TCP; these records are some of them. */
  readonly truncated: boolean
  /** 0: no error. */
  readonly rcode: number
  readonly records: readonly DnsRecord[]
}

const internet = 1
const cname = 5
const flag = { response: 0x8000, truncated: 0x0200, recursionDesired: 0x0100 }

const words = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 2)
  values.forEach((value, i) => bytes.writeUInt16BE(value, i * 2))
  return bytes
}

/** What every path carries in one piece (DNS flag day 2020), in an OPT record (RFC 6891). */
const edns = Buffer.concat([Buffer.of(0), words(41, 1232, 0, 0, 0)])

/** A question as it is sent; `large`: its answer may have 1,232 bytes over UDP, and 512 else. */
export const encodeQuestion = (
  id: number,
  { name, type }: Question,
  large = false,
): Buffer => {
  const labels = name
    .split('.')
    .filter(label => label !== '')
    .map(label => Buffer.from(`\0${label}`, 'latin1'))
  for (const label of labels) label[0] = label.length - 1
  return Buffer.concat([
    words(id, flag.recursionDesired, 1, 0, 0, large ? 1 : 0),
    ...labels,
    Buffer.of(0),
    words(questionTypes[type], internet),
    large ? edns : Buffer.of(),
  ])
}

/**
 * Undefined for a message that is no answer to this question: one that comes too late, or
 * a forged one. Throws when it is and can't be read.
 */
export const decodeAnswer = (
  message: Buffer,
  id: number,
  question: Question,
): Answer | undefined => {
  if (message.length < 12 || message.readUInt16BE(0) !== id) return undefined
  const flags = message.readUInt16BE(2)
  if ((flags & flag.response) === 0) return undefined
  const reader = new WireReader(message)
  try {
    reader.bytes(4)
    const [questions, answers] = [reader.u16(), reader.u16()]
    reader.bytes(4)
    const rcode = flags & 0xf
    if (!repeats(reader, questions, question, rcode)) return undefined
    const truncated = (flags & flag.truncated) !== 0
    return { truncated, rcode, records: readRecords(reader, answers, truncated) }
  } catch (error) {
    throw new Error(`its answer is malformed: ${messageOf(error)}`, { cause: error })
  }
}

/** Whether the question is the one that was asked; some that refuse leave it out. */
const repeats = (
  reader: WireReader,
  questions: number,
  { name, type }: Question,
  rcode: number,
): boolean => {
  if (questions === 0) return rcode !== 0
  const asked = reader.name()
  const sort = reader.u16()
  const world = reader.u16()
  return (
    questions === 1 &&
    asked === plainName(name) &&
    sort === questionTypes[type] &&
    world === internet
  )
}

/** As names in answers are written. */
export const plainName = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/** Each takes 11 bytes at least, so that there are at most 6000; the last may be cut in two. */
const readRecords = (reader: WireReader, count: number, isCut: boolean): DnsRecord[] => {
  const records: DnsRecord[] = []
  for (let i = 0; i < count; i += 1) {
    try {
      const record = readRecord(reader)
      if (record !== undefined) records.push(record)
    } catch (error) {
      if (!isCut) throw error
      break
    }
  }
  return records
}

/** Undefined for one of another type or class. */
const readRecord = (reader: WireReader): DnsRecord | undefined => {
  const name = reader.name()
  const type = reader.u16()
  const isInternet = reader.u16() === internet
  const seconds = reader.u32()
  const length = reader.u16()
  const end = reader.at + length
  const data = isInternet ? readData(reader, type) : undefined
  if (data === undefined) {
    reader.bytes(length)
    return undefined
  }
  if (reader.at !== end) throw new Error('a record is not as long as it says')
  // What has the highest bit set counts as 0 (RFC 2181, section 8).
  return { name, ttl: seconds > 0x7fffffff ? 0 : seconds, ...data }
}

const readData = (reader: WireReader, type: number): RecordData | undefined => {
  switch (type) {
    case questionTypes.A:
      return { type: 'A', address: addressText(reader.bytes(4)) }
    case questionTypes.AAAA:
      return { type: 'AAAA', address: addressText(reader.bytes(16)) }
    case cname:
      return { type: 'CNAME', target: reader.name() }
    case questionTypes.SRV: {
      const [priority, weight, port] = [reader.u16(), reader.u16(), reader.u16()]
      return { type: 'SRV', priority, weight, port, target: reader.name() }
    }
    default:
      return undefined
  }
}

/** Walks over a message of RFC 1035. Throws an Error in words where it ends too early. */
class WireReader {
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
