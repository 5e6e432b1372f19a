import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import { errorCode } from '../../util/usher-error.ts'
import { connectTo } from '../../util/connect-to.ts'
import { isUnix } from '../../util/unix-address.ts'
import type { Backend } from '../front.ts'
import type { Dial } from '../dial.ts'
import type { DialAttempt, Dialler } from '../attempts.ts'
import type { FdBudget } from '../fd-budget.ts'
import { noTls, takesTls } from '../postgres.ts'
import type { RelayLimits } from '../relay.ts'
import type { GiveUpCause } from '../retry-plan.ts'
import type { EndpointPlaces } from '../shared-places.ts'

/** A connection that is being dialled for. Exactly one of the two is called, unless it cancels. */
export interface Dialled {
  readonly clientAddress: string
  readonly acceptedAt: number
  /** Whether the client has ended its side, and has said nothing. */
  readonly hasLeft: boolean
  dial: SocketDial | undefined
  dialTimer: Timer | undefined
  /** Milliseconds that it has waited for an endpoint, and for a place at one. */
  heldMs: number
  queuedMs: number
  /** What an endpoint is to be asked before it is connected to: for TLS. */
  readonly opening: Buffer | undefined
  connected(socket: Socket, backend: Backend): void
  gaveUp(cause: GiveUpCause, detail: string): void
}

export type SocketDial = Dial<Backend, Socket, Dialled>
type SocketAttempt = DialAttempt<Backend, Socket, Dialled>

/** A unix socket whose queue is full is tried again so often. */
const fullQueueMs = 20

/** Dials with sockets of node:net. */
export class Dialling implements Dialler<Backend, Socket, Dialled> {
  readonly limits: RelayLimits
  readonly random: () => number
  readonly fds: FdBudget
  readonly placed = new PlacedSockets()
  readonly #clock: Clock

  constructor(clock: Clock, random: () => number, limits: RelayLimits, fds: FdBudget) {
    this.#clock = clock
    this.random = random
    this.limits = limits
    this.fds = fds
  }

  now(): number {
    return this.#clock.now()
  }

  clientOf({ clientAddress }: Dialled): string {
    return clientAddress
  }

  acceptedAt({ acceptedAt }: Dialled): number {
    return acceptedAt
  }

  waited(connection: Dialled, what: 'heldMs' | 'queuedMs', since: number): void {
    connection[what] += this.now() - since
  }

  setTimer(connection: Dialled, ms: number): void {
    this.clearTimer(connection)
    connection.dialTimer = this.#clock.setTimeout(() => connection.dial?.timer(), ms)
  }

  clearTimer(connection: Dialled): void {
    this.#clock.clearTimeout(connection.dialTimer)
    connection.dialTimer = undefined
  }

  connect(attempt: SocketAttempt): void {
    const { backend } = attempt
    const socket = connectTo(backend.address, backend.port, {
      allowHalfOpen: true,
      noDelay: true,
      autoSelectFamily: false,
      highWaterMark: this.limits.connectionBuffer,
    })
    attempt.socket = socket
    socket.on('connect', () => this.#connected(attempt, socket))
    socket.on('error', error => this.#failed(attempt, errorCode(error)))
  }

  /** EAGAIN: there is no room in a unix socket's queue, where TCP would send its SYN again. */
  #failed(attempt: SocketAttempt, code: string): void {
    if (code !== 'EAGAIN' || !isUnix(attempt.backend.address))
      return attempt.dial?.lost(attempt, code)
    this.#clock.setTimeout(() => {
      if (attempt.dial !== undefined) this.connect(attempt)
    }, fullQueueMs)
  }

  close(socket: Socket): void {
    socket.destroy()
  }

  hasLeft({ hasLeft }: Dialled): boolean {
    return hasLeft
  }

  gaveUp(connection: Dialled, cause: GiveUpCause, detail: string): void {
    connection.gaveUp(cause, detail)
  }

  #connected(attempt: SocketAttempt, socket: Socket): void {
    const { connection, backend, dial } = attempt
    if (dial === undefined) return
    if (backend.failures > 0 && isSelfConnected(socket)) {
      return void socket.destroy(selfConnected())
    }
    const { opening } = connection
    if (opening === undefined) return this.#won(attempt, socket)
    socket.write(opening)
    const answered = (chunk = nothing): void => {
      socket.off('data', answered).off('end', answered).pause()
      const answer = chunk.toString('latin1', 0, 1)
      if (attempt.dial === undefined) return
      if (answer !== takesTls) {
        socket.destroy()
        return attempt.dial.lost(attempt, noTls(answer))
      }
      if (chunk.length > 1) socket.unshift(chunk.subarray(1))
      this.#won(attempt, socket)
      socket.resume()
    }
    socket.on('data', answered).on('end', answered)
  }

  #won(attempt: SocketAttempt, socket: Socket): void {
    const { connection, backend, dial, places } = attempt
    dial?.won(attempt)
    if (places === undefined) this.placed.take(socket, backend.places)
    else this.placed.put(socket, places)
    connection.connected(socket, backend)
  }
}

/**
 * On one host a dial to a port of the ephemeral range without a listener may be given
 * that very port for its own, and then TCP's simultaneous open connects it to itself
 * (RFC 9293, 3.5). It takes thousands of refusals to happen once, so that only an endpoint
 * that has failed before is worth the system calls.
 */
const isSelfConnected = (socket: Socket): boolean =>
  socket.localPort !== undefined &&
  socket.localPort === socket.remotePort &&
  socket.localAddress === socket.remoteAddress

const selfConnected = (): NodeJS.ErrnoException =>
  Object.assign(new Error('connected to itself'), { code: 'ECONNREFUSED' })

/** Sockets that have taken a place at their endpoint, which is given back when they are closed. */
class PlacedSockets {
  readonly #places = new WeakMap<Socket, EndpointPlaces>()

  /** The place was taken for it. */
  put(socket: Socket, places: EndpointPlaces): void {
    const isNew = !this.#places.has(socket)
    this.#places.set(socket, places)
    if (isNew) socket.once('close', () => this.#places.get(socket)?.free())
  }

  /** It is open already, and counts all the same. */
  take(socket: Socket, places: EndpointPlaces | undefined): void {
    const before = this.#places.get(socket)
    if (socket.destroyed || places === undefined || places.id === before?.id) return
    before?.free()
    places.take(Infinity)
    this.put(socket, places)
  }
}

const nothing = Buffer.alloc(0)
