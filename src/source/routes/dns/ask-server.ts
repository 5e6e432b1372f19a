import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { createConnection } from 'node:net'
import { joinHostPort, type AddressPort } from '../../../util/ip.ts'
import { errorOf } from '../../../util/usher-error.ts'
import { decodeAnswer, encodeQuestion, type Answer } from './dns-message.ts'
import type { Question } from './dns-record.ts'

/** How long a server may take to answer; over TCP it takes some ways more. */
const udpMs = 1500
const tcpMs = 3000

/** One server's answer to one question. Rejects in words when there is none. */
export const askServer = async (
  server: AddressPort,
  question: Question,
  signal: AbortSignal,
): Promise<Answer> => {
  const answer = await inTime(udpMs, signal, askByUdp(server, question))
  if (!answer.truncated) return answer
  const whole = await inTime(tcpMs, signal, askByTcp(server, question))
  if (whole.truncated) throw new Error('its answer is truncated, over TCP too')
  return whole
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
    const late = new Error(`it gave no answer within ${ms / 1000} s`)
    const timer = setTimeout(() => failed(late), ms)
    signal.addEventListener('abort', aborted)
    const end = begin({ done: answer => once(() => resolve(answer)), failed })
  })

/** From a port that the kernel chooses, by an id that can't be guessed; only this server is heard. */
const askByUdp =
  ({ address, port }: AddressPort, question: Question): Exchange =>
  ({ done, failed }) => {
    const id = randomInt(0x10000)
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
    socket.on('error', error => failed(inWords(error, 'UDP')))
    socket.on('message', message => {
      try {
        const answer = decodeAnswer(message, id, question)
        // What answers another question is late or forged: the right one may still come.
        if (answer !== undefined) done(answer)
      } catch (error) {
        failed(error as Error)
      }
    })
    socket.on('connect', () => socket.send(encodeQuestion(id, question)))
    socket.connect(port, address)
    return () => socket.close()
  }

const askByTcp =
  ({ address, port }: AddressPort, question: Question): Exchange =>
  ({ done, failed }) => {
    const id = randomInt(0x10000)
    const socket = createConnection({ host: address, port })
    socket.on('error', error => failed(inWords(error, 'TCP')))
    socket.on('end', () => failed(new Error('it hung up before its answer was whole')))
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
        if (answer === undefined) throw new Error('it answers another question')
        done(answer)
      } catch (error) {
        failed(error as Error)
      }
    })
    return () => socket.destroy()
  }

const inWords = (error: NodeJS.ErrnoException, by: string): Error =>
  new Error(
    error.code === 'ECONNREFUSED'
      ? `nothing answers there over ${by} (ECONNREFUSED)`
      : error.message,
    { cause: error },
  )

/** `10.0.0.2`, with its port unless it is DNS's own. */
export const serverText = ({ address, port }: AddressPort): string =>
  port === 53 ? address : joinHostPort(address, port)
