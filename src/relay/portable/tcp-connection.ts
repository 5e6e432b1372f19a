import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import { joinHostPort, unmapped } from '../../util/ip.ts'
import { errorCode } from '../../util/error-code.ts'
import type { Backend } from '../backend.ts'
import type { Cause } from '../cause.ts'
import { attemptRecords, Dial } from '../dial.ts'
import { takeEarlyClose } from '../early-close.ts'
import type { Choice } from '../front.ts'
import type { ConnectionRecord, RelayLimits, RelayObserver } from '../relay.ts'
import type { GiveUpCause } from '../retry-plan.ts'
import type { Dialled, Dialling, SocketDial } from './dialling.ts'
import type { IdleWatch, WatchedConnection } from './idle-watch.ts'
import type { ListenerState } from './listener-state.ts'
import { confirmEnd, reset, wasReset } from './reset.ts'
import { KeptEnd } from './kept-end.ts'
import { SaidBytes } from './said-bytes.ts'
import type { Undelivered } from './undelivered.ts'

/** What a connection needs of the listener that accepted it. */
export interface ConnectionContext {
  readonly clock: Clock
  readonly limits: RelayLimits
  readonly state: ListenerState
  readonly dialling: Dialling
  readonly undelivered: Undelivered
  readonly idleWatch: IdleWatch
  readonly observer: RelayObserver
  /** Said once, when both sockets are closed. */
  ended(connection: TcpConnection): void
}

/**
 * Idle time before the first probe unless the limits have one; Node adds an interval of 1 s
 * and 10 probes. Go's 15 s, as kube-proxy had.
 */
const usualKeepAliveIdleMs = 15_000

/** One relayed TCP connection: accepted, dialled, copied both ways, closed, recorded. */
export class TcpConnection implements Dialled, WatchedConnection {
  readonly #context: ConnectionContext
  readonly #client: Socket
  readonly #choice: Choice
  dial: SocketDial | undefined
  dialTimer: Timer | undefined
  readonly keptEnd: KeptEnd
  #said: SaidBytes
  #clientAddress = ''
  #clientPort = 0
  readonly acceptedAt: number
  begunAt = 0
  #connectedAt = 0
  #attempts: SocketDial['attempts'] = []
  #backend: Backend | undefined
  #backendSocket: Socket | undefined
  /** What the client sent before an endpoint was connected. */
  #held: Buffer[] = []
  #heldBytes = 0
  #openSockets = 1
  /** When half-closed: the socket whose side has not ended. */
  #openWay: Socket
  /** What had been read from it by then. */
  #bytesAtHalfClose = 0
  /** It has answered, or lasted too long for an early close. */
  #hasLasted = false
  #cause: Cause = '--'
  #detail = ''

  /** `choice`: what this client may choose from. */
  constructor(context: ConnectionContext, client: Socket, choice: Choice) {
    this.#context = context
    this.#choice = choice
    this.acceptedAt = context.clock.now()
    this.#client = client
    this.#openWay = client
    const { observer } = context
    this.keptEnd = new KeptEnd(context.dialling.fds)
    this.#said = new SaidBytes(0)
    if (observer.wants('--')) this.#nameClient()
    // Reading starts now: only a socket that is read notices that its peer has left.
    this.#attach(client)
    client.on('timeout', () => this.#clientIdle())
    this.#begin()
  }

  /** Times count from here. */
  #begin(): void {
    const { clock, limits, idleWatch } = this.#context
    this.begunAt = clock.now()
    if (limits.tcpIdleTimeout > 0) this.#client.setTimeout(limits.tcpIdleTimeout)
    idleWatch.begun(this)
  }

  start(): void {
    const { dialling, state } = this.#context
    this.dial = new Dial(dialling, this, state, this.#choice, this.#attempts)
    this.dial.start()
  }

  /** Asking for it is a system call: only where the balancer looks at it. */
  get clientAddress(): string {
    if (this.#context.state.balancer.isSticky) this.#nameClient()
    return this.#clientAddress
  }

  get hasLeft(): boolean {
    // One that is not read does not notice a reset.
    if (this.#client.isPaused() && wasReset(this.#client)) return true
    return this.#client.readableEnded && this.#heldBytes === 0
  }

  connected(socket: Socket, backend: Backend): void {
    this.#endDial()
    this.keptEnd.forget()
    this.#attach(socket)
    this.#serve(socket, backend)
  }

  #serve(socket: Socket, backend: Backend): void {
    this.#backend = backend
    this.#backendSocket = socket
    this.#openSockets += 1
    backend.active += 1
    this.#begin()
    const held = this.#held
    this.#held = []
    this.#heldBytes = 0
    this.#hasLasted = false
    this.#said = new SaidBytes(this.#context.state.retry?.replay ?? 0)
    let room = true
    for (const chunk of held) room = this.#say(chunk, socket)
    if (this.#client.readableEnded) this.#halfClosed(this.#client)
    else if (room) this.#client.resume()
    else waitForDrain(this.#client, socket)
  }

  gaveUp(cause: GiveUpCause, detail: string): void {
    this.#endDial()
    const last = this.keptEnd.take()
    if (last !== undefined) {
      // Its end is the client's to know, as what it was.
      this.#serve(last.socket, last.backend)
      return this.#halfClosed(last.socket)
    }
    this.#blame(cause, detail)
    reset(this.#client)
  }

  // The data path: two half-duplex copies, `from` one socket to the one opposite.

  #attach(socket: Socket): void {
    socket.on('data', chunk => this.#copy(socket, chunk))
    socket.on('end', () => this.#end(socket))
    socket.on('error', error => this.#broken(socket, errorCode(error)))
    socket.on('close', () => this.#closed(socket))
  }

  #copy(from: Socket, chunk: Buffer): void {
    const to = this.#opposite(from)
    if (to === undefined) return this.#hold(chunk)
    if (from !== this.#client && !this.#hasLasted) this.lasts()
    const room = from === this.#client ? this.#say(chunk, to) : to.write(chunk)
    if (!room) waitForDrain(from, to)
  }

  /** To the endpoint; kept too, while that may have to be said to another one. */
  #say(chunk: Buffer, to: Socket): boolean {
    this.#said.add(chunk)
    return to.write(chunk)
  }

  #end(from: Socket): void {
    const moved = from.bytesRead > this.#bytesAtHalfClose
    if (this.#closedEarly(from, wasReset(from))) return
    if (wasReset(from)) this.#broken(from, 'ECONNRESET')
    else if (from.writableEnded && moved) confirmEnd(from, () => this.#halfClosed(from))
    else this.#halfClosed(from)
  }

  #halfClosed(from: Socket): void {
    const to = this.#opposite(from)
    if (to === undefined) return this.dial?.clientEnded()
    this.#context.idleWatch.halfClosed(this)
    this.#openWay = to
    this.#bytesAtHalfClose = to.bytesRead
    // A FIN behind data that is stuck would be in the way of a reset later on.
    if (to.writableLength === 0) to.end()
    else to.write(nothing, () => to.end())
  }

  #broken(socket: Socket, detail: string): void {
    if (this.keptEnd.has(socket)) return this.keptEnd.forget()
    if (!this.#isPart(socket) || this.#closedEarly(socket, true)) return
    const dialling = this.dial !== undefined
    this.#blame(socket === this.#client ? (dialling ? 'CC' : 'CD') : 'SD', detail)
    socket.destroy()
    this.#cancelDial()
    const to = this.#opposite(socket)
    if (to !== undefined && !to.destroyed) this.#passReset(to)
  }

  #closed(socket: Socket): void {
    if (!this.#isPart(socket)) return
    if (this.dial !== undefined) this.#blame('CC', 'closed')
    this.#cancelDial()
    this.#openSockets -= 1
    if (this.#openSockets === 0) this.#finish()
  }

  /** Whether the endpoint has ended so early that another one is dialled in its place. */
  #closedEarly(socket: Socket, byReset: boolean): boolean {
    const { clock, state } = this.#context
    const backend = this.#backend
    const { retry } = state
    if (retry === undefined || socket !== this.#backendSocket) return false
    // Its end has been passed on, or it has served.
    if (backend === undefined || this.#client.writableEnded || socket.bytesRead > 0)
      return false
    const nothingSent = socket.bytesWritten === 0 && !socket.writableEnded
    const repeatable = nothingSent || this.#said.isRepeatable
    const now = clock.now()
    const [ms, age] = [now - this.#connectedAt, now - this.acceptedAt]
    const attempts = this.#attempts
    const ended = { service: state, backend, choice: this.#choice, attempts, ms, age }
    if (!takeEarlyClose({ ...ended, repeatable })) return false
    this.#backend = undefined
    this.#backendSocket = undefined
    this.#openSockets -= 1
    this.#begin()
    this.#held = this.#said.isRepeatable ? [this.#said.bytes] : []
    this.#heldBytes = this.#said.bytes.length
    if (byReset || !nothingSent) socket.destroy()
    else this.keptEnd.keep({ socket, backend })
    this.start()
    return true
  }

  #isPart(socket: Socket): boolean {
    return socket === this.#client || socket === this.#backendSocket
  }

  #opposite(socket: Socket): Socket | undefined {
    return socket === this.#client ? this.#backendSocket : this.#client
  }

  /** No endpoint is connected yet; beyond the bound it waits in the kernel's queue. */
  #hold(chunk: Buffer): void {
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (this.#heldBytes >= this.#context.limits.connectionBuffer) this.#client.pause()
  }

  #idle(socket: Socket): void {
    this.#blame(socket === this.#client ? 'cD' : 'sD', 'ETIMEDOUT')
    this.#reset()
  }

  /** Dialling has limits of its own. */
  #clientIdle(): void {
    if (this.dial === undefined) this.#idle(this.#client)
  }

  /** Half-closed, and nothing moves: the side that could still send is the idle one. */
  endIdle(): void {
    this.#idle(this.#openWay)
  }

  /** The endpoint does what it is there for. */
  lasts(): void {
    this.#hasLasted = true
    this.#said.forget()
    const { state } = this.#context
    if (state.retry !== undefined && this.#backend !== undefined) {
      state.served(this.#backend)
    }
  }

  enableKeepAlive(): void {
    if (this.#backend !== undefined) this.lasts()
    const { tcpKeepalive = usualKeepAliveIdleMs } = this.#context.limits
    if (tcpKeepalive === 0) return
    this.#client.setKeepAlive(true, tcpKeepalive)
    this.#backendSocket?.setKeepAlive(true, tcpKeepalive)
  }

  get bytesMoved(): number {
    return this.bytesToBackend + this.bytesToClient
  }

  get sockets(): readonly Socket[] {
    const backend = this.#backendSocket
    return backend === undefined ? [this.#client] : [this.#client, backend]
  }

  /** Ends the connection at once; for the end of the drain time. */
  kill(cause: Cause, detail: string): void {
    this.#blame(cause, detail)
    this.#cancelDial()
    this.#reset()
  }

  get bytesToBackend(): number {
    return this.#backendSocket === undefined ? 0 : this.#client.bytesRead
  }

  get bytesToClient(): number {
    return this.#backendSocket?.bytesRead ?? 0
  }

  /** Key of where it is connected to, '' while it is not. */
  get endpoint(): string {
    return this.#backend?.key ?? ''
  }

  /** What kept it from being served, for the status; '' when it reached an endpoint. */
  get failure(): string {
    return this.#backendSocket === undefined && this.#cause !== 'CC' ? this.#detail : ''
  }

  /**
   * What was received before the reset is delivered first: the kernel drops what it has
   * not sent when a socket is closed with a reset.
   */
  #passReset(to: Socket): void {
    const { undelivered, limits } = this.#context
    to.pause()
    if (to.bytesWritten === 0) reset(to)
    else undelivered.wait(to, limits.halfCloseTimeout, () => reset(to))
  }

  #reset(): void {
    reset(this.#client)
    if (this.#backendSocket !== undefined) reset(this.#backendSocket)
  }

  /** The first cause is the cause: not what follows from it. */
  #blame(cause: Cause, detail: string): void {
    if (this.#cause !== '--') return
    // For the record; asking for every connection would cost each a system call.
    this.#nameClient()
    this.#cause = cause
    this.#detail = detail
  }

  #nameClient(): void {
    this.#clientAddress ||= unmapped(this.#client.remoteAddress ?? '')
    this.#clientPort ||= this.#client.remotePort ?? 0
  }

  #cancelDial(): void {
    this.dial?.cancel()
    this.#endDial()
  }

  #endDial(): void {
    if (this.dial === undefined) return
    this.#attempts = this.dial.attempts
    this.dial = undefined
    this.#connectedAt = this.#context.clock.now()
  }

  #finish(): void {
    const { state, observer } = this.#context
    const { counters } = state
    if (this.#backend !== undefined) this.#backend.active -= 1
    counters.add('bytesToBackend', this.bytesToBackend)
    counters.add('bytesToClient', this.bytesToClient)
    if (this.#cause !== '--') counters.countFailure(this.#cause)
    if (observer.wants(this.#cause)) observer.connectionClosed(this.#describe())
    this.keptEnd.forget()
    this.#context.idleWatch.ended(this)
    this.#context.ended(this)
  }

  #describe(): ConnectionRecord {
    return {
      listener: this.#context.state.spec.name,
      client: joinHostPort(this.#clientAddress, this.#clientPort),
      endpoint: this.endpoint,
      attempts: attemptRecords(this.#attempts),
      bytesToBackend: this.bytesToBackend,
      bytesToClient: this.bytesToClient,
      dialMs: this.#connectedAt - this.acceptedAt,
      totalMs: this.#context.clock.now() - this.acceptedAt,
      cause: this.#cause,
      detail: this.#detail,
    }
  }
}

const nothing = Buffer.alloc(0)

/** Back-pressure: nothing more is read until what is written has gone. */
const waitForDrain = (from: Socket, to: Socket): void => {
  from.pause()
  to.once('drain', () => from.resume())
}
