import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { createConnection } from 'node:net'
import { joinHostPort, type AddressPort } from '../../../util/ip.ts'
import { errorOf, hasCode, messageOf, UsherError } from '../../../util/usher-error.ts'
import {
  decodeAnswer,
  type DnsRecord,
  encodeQuestion,
  plainName,
  type Answer,
  type Question,
  type QuestionType,
} from './dns-message.ts'

export type RecordOf<T extends QuestionType> = Extract<DnsRecord, { type: T }>

/** What a name has of one type. */
export interface Records<T extends QuestionType> {
  readonly records: readonly RecordOf<T>[]
  /** In seconds, the shortest of all that led there. */
  readonly ttl: number
  /** Why there are none; '' when there are. */
  readonly none: string
  /** Why there may be more; '' when these are all. */
  readonly cut: string
}

/**
 * How each server is asked, one round after the other: a datagram may be lost. The second time
 * without EDNS, which old servers refuse or drop.
 */
const rounds = [{ large: true }, { large: false }]

/** As many as there can be for good reasons, and then some. */
const mostAliases = 16

const codes: Readonly<Record<number, string>> = {
  1: 'it does not understand the question (FORMERR)',
  2: 'it failed (SERVFAIL)',
  4: 'it does not support this query (NOTIMP)',
  5: 'it refused (REFUSED)',
}
const noSuchName = 3

/**
 * Asks one server after the other until one knows. An answer that was cut, where TCP does not work,
 * is the last resort. Rejects with what was wrong with each when none does, with SILENCE when that
 * is all there was; that a name or type is not there is known.
 */
export const askServers = async <T extends QuestionType>(
  servers: readonly AddressPort[],
  question: Question & { readonly type: T },
  signal: AbortSignal,
): Promise<Records<T>> => {
  const faults = new Map<string, Error>()
  let part: Records<T> | undefined
  for (const { large } of rounds) {
    for (const server of servers) {
      try {
        const reply = await askServer(server, question, large, signal)
        const found = recordsIn(reply, question)
        if (reply.cut === '') return { ...found, cut: '' }
        if (found.none === '') part ??= { ...found, cut: reply.cut }
        throw new Error(reply.cut)
      } catch (error) {
        if (signal.aborted) throw error
        faults.set(serverText(server), errorOf(error))
      }
    }
    if (part !== undefined) return part
  }
  const errors = [...faults].map(([server, { message }]) => `${server}: ${message}`)
  const isSilent = [...faults.values()].every(fault => hasCode(fault, 'SILENCE'))
  const text = errors.join('; ') || 'no DNS server is configured'
  throw isSilent ? new UsherError('SILENCE', text) : new Error(text)
}

const recordsIn = <T extends QuestionType>(
  { rcode, records }: Answer,
  { name, type }: Question & { readonly type: T },
): Omit<Records<T>, 'cut'> => {
  if (rcode === noSuchName)
    return { records: [], ttl: 0, none: 'there is no such name (NXDOMAIN)' }
  if (rcode !== 0) throw new Error(codes[rcode] ?? `it returned error ${rcode}`)
  const isOfType = (record: DnsRecord): record is RecordOf<T> => record.type === type
  let ttl = Infinity
  let owner = plainName(name)
  for (let aliases = 0; aliases <= mostAliases; aliases += 1) {
    const own = records.filter(record => record.name === owner)
    const found = own.filter(isOfType)
    const alias = own.find(record => record.type === 'CNAME')
    ttl = Math.min(ttl, ...(found.length > 0 ? found : own).map(record => record.ttl))
    if (found.length > 0) return { records: found, ttl, none: '' }
    if (alias === undefined)
      return { records: [], ttl, none: `the name has no ${type} records` }
    owner = alias.target
  }
  throw new Error(
    `its answer goes through more than ${mostAliases} CNAMEs, possibly in a loop`,
  )
}

/** How long a server may take to answer; over TCP it takes some ways more. */
const udpMs = 1500
const tcpMs = 2000

/** `cut`: why there are no more records than these, though the server has more. */
type Reply = Answer & { readonly cut: string }

/**
 * One server's answer to one question. `large`: it may be longer than servers without EDNS know.
 * Rejects in words when there is none, with SILENCE when nothing came.
 */
const askServer = async (
  server: AddressPort,
  question: Question,
  large: boolean,
  signal: AbortSignal,
): Promise<Reply> => {
  const answer = await inTime(udpMs, signal, askByUdp(server, question, large))
  if (!answer.truncated) return { ...answer, cut: '' }
  try {
    const whole = await inTime(tcpMs, signal, askByTcp(server, question))
    return {
      ...whole,
      cut: whole.truncated ? 'its answer is truncated, over TCP too' : '',
    }
  } catch (error) {
    if (signal.aborted) throw error
    return {
      ...answer,
      cut: `its answer is truncated, and over TCP: ${messageOf(error)}`,
    }
  }
}

/** What a transport tells of its end. */
interface Outcome {
  readonly done: (answer: Answer) => void
  readonly failed: (error: Error) => void
}

/** Begins to ask; what it returns ends that, and frees what it has. */
type Exchange = (outcome: Outcome) => () => void

const inTime = (ms: number, signal: AbortSignal, begin: Exchange): Promise<Answer> =>
  new Promise((resolve, reject) => {
    if (signal.aborted) return reject(errorOf(signal.reason))
    let over = false
    const once = (settle: () => void): void => {
      if (over) return
      over = true
      clearTimeout(timer)
      signal.removeEventListener('abort', aborted)
      end()
      settle()
    }
    const failed = (error: Error): void => once(() => reject(error))
    const aborted = (): void => failed(errorOf(signal.reason))
    const late = new UsherError('SILENCE', `it gave no answer within ${ms / 1000} s`)
    const timer = setTimeout(() => failed(late), ms)
    signal.addEventListener('abort', aborted)
    const end = begin({ done: answer => once(() => resolve(answer)), failed })
  })

/** From a port that the kernel chooses, by an id that can't be guessed; only this server is heard. */
const askByUdp =
  ({ address, port }: AddressPort, question: Question, large: boolean): Exchange =>
  ({ done, failed }) => {
    const id = randomInt(0x10000)
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
    socket.on('error', error => failed(serverError(error, 'UDP')))
    socket.on('message', message => {
      try {
        const answer = decodeAnswer(message, id, question)
        // What answers another question is late or forged: the right one may still come.
        if (answer !== undefined) done(answer)
      } catch (error) {
        failed(error as Error)
      }
    })
    socket.on('connect', () => socket.send(encodeQuestion(id, question, large)))
    socket.connect(port, address)
    return () => socket.close()
  }

const askByTcp =
  ({ address, port }: AddressPort, question: Question): Exchange =>
  ({ done, failed }) => {
    const id = randomInt(0x10000)
    const socket = createConnection({ host: address, port })
    socket.on('error', error => failed(serverError(error, 'TCP')))
    socket.on('end', () =>
      failed(new Error('it closed the connection before its answer was complete')),
    )
    socket.on('connect', () => {
      const message = encodeQuestion(id, question)
      const length = Buffer.of(message.length >> 8, message.length & 0xff)
      socket.write(Buffer.concat([length, message]))
    })
    let received: Buffer = Buffer.alloc(0)
    socket.on('data', chunk => {
      received = Buffer.concat([received, chunk])
      if (received.length < 2) return
      const end = 2 + received.readUInt16BE(0)
      if (received.length < end) return
      try {
        const answer = decodeAnswer(received.subarray(2, end), id, question)
        if (answer === undefined) throw new Error('its answer is for another question')
        done(answer)
      } catch (error) {
        failed(error as Error)
      }
    })
    return () => socket.destroy()
  }

const serverError = (error: NodeJS.ErrnoException, by: string): Error =>
  new Error(
    error.code === 'ECONNREFUSED'
      ? `nothing answers there over ${by} (ECONNREFUSED)`
      : error.message,
    { cause: error },
  )

/** `10.0.0.2`, with its port unless it is DNS's own. */
const serverText = ({ address, port }: AddressPort): string =>
  port === 53 ? address : joinHostPort(address, port)
