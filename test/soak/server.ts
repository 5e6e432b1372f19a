import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { reset } from '../../src/relay/sockets/node/reset.ts'
import { disguisedReset } from './disguised-reset.ts'
import { PatternCheck } from './pattern.ts'
import { readSlowly, sendPattern } from './streaming.ts'
import { headerBytes, type Visit, visitOf } from './visit.ts'

/** What a server saw of a visit. */
export interface Served {
  readonly check: PatternCheck
  hasEnded: boolean
  isClosed: boolean
  /** The errno of what broke it, or ''. */
  error: string
}

/** What all servers saw, by the visit's seed; whoever judges a visit takes it out. */
export type Guestbook = Map<number, Served>

export interface Server {
  readonly endpoint: RelayEndpoint
  readonly close: () => Promise<void>
}

/** A server that does what the first bytes of each connection say, and checks the rest. */
export const startServer = async (book: Guestbook): Promise<Server> => {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    receive(socket, book)
  })
  server.listen({ port: 0, host: testHost, backlog: 1024 })
  await once(server, 'listening')
  return {
    endpoint: endpoint(testHost, (server.address() as AddressInfo).port),
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** The header may come in pieces. A dial that another endpoint won says nothing at all. */
const receive = (socket: Socket, book: Guestbook): void => {
  let header: Buffer = Buffer.alloc(0)
  let guest: Guest | undefined
  socket.on('error', (error: NodeJS.ErrnoException) =>
    guest?.failed(error.code ?? error.message),
  )
  socket.on('close', () => guest?.closed())
  socket.on('end', () => {
    const error = disguisedReset(socket)
    if (error !== '') {
      guest?.failed(error)
      socket.destroy()
    } else if (guest === undefined) socket.end()
    else guest.ended()
  })
  socket.on('data', (chunk: Buffer) => {
    if (guest !== undefined) return guest.take(chunk)
    header = Buffer.concat([header, chunk])
    if (header.length < headerBytes) return
    const visit = visitOf(header)
    if (visit === undefined) return reset(socket)
    guest = new Guest(socket, visit, book)
    guest.take(header.subarray(headerBytes))
  })
}

class Guest {
  readonly #socket: Socket
  readonly #visit: Visit
  readonly #served: Served
  #hasSent = false

  constructor(socket: Socket, visit: Visit, book: Guestbook) {
    this.#socket = socket
    this.#visit = visit
    const check = new PatternCheck(visit.seed)
    this.#served = { check, hasEnded: false, isClosed: false, error: '' }
    book.set(visit.seed, this.#served)
    if (visit.way === 'slow-server') readSlowly(socket)
    sendPattern(socket, visit.seed + 1, visit.down, () => {
      this.#hasSent = true
      this.#maybeEnd()
    })
  }

  take(chunk: Buffer): void {
    this.#served.check.take(chunk)
    const { way, cutAt } = this.#visit
    if (way === 'server-resets' && this.#served.check.received >= cutAt)
      reset(this.#socket)
  }

  ended(): void {
    this.#served.hasEnded = true
    this.#maybeEnd()
  }

  failed(error: string): void {
    this.#served.error = error
  }

  closed(): void {
    this.#served.isClosed = true
  }

  #maybeEnd(): void {
    const isFirst = this.#visit.way === 'server-ends-first'
    if (this.#hasSent && (isFirst || this.#served.hasEnded)) this.#socket.end()
  }
}
