import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../services.ts'
import { ErrorCounts } from './load.ts'
import type { KeptFlows, LoadAnswer } from './question.ts'

/** Each flow sends a datagram so often. */
const everyMs = 20
/** A datagram that has not come back by then is lost. */
const lostAfterMs = 500
/** One may be lost: it was in a socket's queue, or on its way to it. */
const mayBeLost = 1

/** The flows of this process, if any are open: they outlast the question that has opened them. */
let kept: readonly Flow[] | undefined
let openedAt = 0

/** As `askKeptSessions`, for UDP: `done` are flows that kept their endpoint and lost no more than one datagram. */
export const askKeptFlows = async ({ to, flows }: KeptFlows): Promise<LoadAnswer> => {
  const open = kept ?? []
  for (const flow of open) flow.pause()
  // All at once have the same time.
  if (open.length > 0) await sleep(lostAfterMs)
  const errors = new ErrorCounts()
  for (const { lost, hasMoved } of open) {
    errors.add('lost', lost)
    errors.add('another endpoint', Number(hasMoved))
  }
  const done = open.filter(({ lost, hasMoved }) => lost <= mayBeLost && !hasMoved).length
  const seconds = (performance.now() - openedAt) / 1000
  const answer = { done, tried: open.length, seconds, errors: errors.counts }
  await Promise.all(open.map(flow => flow.close()))
  kept = undefined
  if (flows > 0) {
    kept = await Promise.all(Array.from({ length: flows }, () => Flow.open(to)))
    openedAt = performance.now()
  }
  return answer
}

const headerBytes = 4

/** A client of an echo that tells which server it is. */
class Flow {
  hasMoved = false
  readonly #socket: Socket
  readonly #back = new Set<number>()
  readonly #ticker: NodeJS.Timeout
  #sent = 0
  #server: number | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    // A refusal is a datagram that does not come back.
    socket.on('error', () => undefined)
    socket.on('message', message => this.#hear(message))
    this.#ticker = setInterval(() => this.#send(), everyMs)
    this.#send()
  }

  static async open({ address, port }: Endpoint): Promise<Flow> {
    const socket = createSocket('udp4')
    socket.connect(port, address)
    await once(socket, 'connect')
    return new Flow(socket)
  }

  get lost(): number {
    return this.#sent - this.#back.size
  }

  #send(): void {
    const datagram = Buffer.alloc(headerBytes)
    datagram.writeUInt32BE(this.#sent)
    this.#sent += 1
    this.#socket.send(datagram, () => undefined)
  }

  #hear(message: Buffer): void {
    const server = message.readUInt16BE(headerBytes)
    this.#server ??= server
    this.hasMoved ||= server !== this.#server
    this.#back.add(message.readUInt32BE())
  }

  pause(): void {
    clearInterval(this.#ticker)
  }

  async close(): Promise<void> {
    this.pause()
    const closed = once(this.#socket, 'close')
    this.#socket.close()
    await closed
  }
}
