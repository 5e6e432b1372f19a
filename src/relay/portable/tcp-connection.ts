import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import { errorCode } from '../../util/usher-error.ts'
import { GrowingBytes } from '../../util/growing-bytes.ts'
import type { OpenNow } from '../access-log/access-entry.ts'
import { brokenBy, type Cause } from '../cause.ts'
import type { Cut } from '../cut.ts'
import { Dial } from '../dial.ts'
import { attemptRecords } from '../attempts.ts'
import { noteUnserved, takeEarlyClose, takeNoAnswer } from '../early-close.ts'
import type { FdBudget } from '../fd-budget.ts'
import type { Choice, Backend } from '../front.ts'
import { sslRequest } from '../postgres.ts'
import type { RelayLimits } from '../relay.ts'
import type { GiveUpCause } from '../retry-plan.ts'
import type { Dialled, Dialling, SocketDial } from './dialling.ts'
import { EndRecord } from './end-record.ts'
import type { IdleWatch, WatchedConnection } from './idle-watch.ts'
import type { ListenerState, EndReport } from './listener-state.ts'
import { confirmEnd, mayBeReset, reset, wasReset } from './reset.ts'
import type { Arrival } from './arrival.ts'
import { AnswerTimer, ReplayableUpstream } from './replayable-upstream.ts'
import type { Undelivered } from './undelivered.ts'

/** What a connection needs of the listener that accepted it. */
export interface ConnectionContext {
  readonly clock: Clock
  readonly limits: RelayLimits
  readonly state: ListenerState
  readonly dialling: Dialling
  readonly undelivered: Undelivered
  readonly idleWatch: IdleWatch
  /** Called once, when both sockets are closed. */
  ended(connection: TcpConnection): void
  open(endpoint: Backend | undefined): OpenNow
}

/**
 * Idle time before the first probe unless the limits have one; Node adds an interval of 1 s
 * and 10 probes. Go's 15 s, as kube-proxy had.
 */
const usualKeepAliveIdleMs = 15_000

/**
 * Node tells no TTL, by which the Linux relay finds a ring through other proxies. So where no endpoint
 * has answered for many connections dials wait longer than a reset takes: that of a client that leaves overtakes
 * the ring's newest hop. Milliseconds.
 */
const dialPauseMs = ({ sinceAnswer }: ListenerState): number =>
  Math.min(Math.max(sinceAnswer - 128, 0) * 4, 250)

/** And where many have ended their side: longer than it takes until that of the hop before is a reset. */
const manyLeft = 16
const ofHalfClose = 1.25

/** Only a socket that is read notices a reset; after our own FIN that can't be known. */
const isUnread = (socket: Socket): boolean =>
  !socket.writableEnded && (socket.isPaused() || socket.readableEnded)

/** One relayed TCP connection: accepted, dialled, copied both ways, closed, recorded. */
export class TcpConnection implements Dialled, WatchedConnection {
  readonly #context: ConnectionContext
  readonly #client: Socket
  readonly #choice: Choice
  dial: SocketDial | undefined
  dialTimer: Timer | undefined
  heldMs = 0
  queuedMs = 0
  readonly heldUpstream: HeldUpstream
  readonly record: EndRecord
  readonly acceptedAt: number
  begunAt = 0
  #connectedAt = 0
  #attempts: SocketDial['attempts'] = []
  #backend: Backend | undefined
  #backendSocket: Socket | undefined
  /** Of the backend. */
  #upstream: ReplayableUpstream | undefined
  /** What the client sent before an endpoint was connected. */
  #held: GrowingBytes | undefined
  #openSockets = 1
  /** When half-closed: the socket whose side has not ended. */
  #openWay: Socket
  /** What had been read from it by then. */
  #bytesAtHalfClose = 0
  /** Its client has ended its side without an answer. */
  #leftUnanswered = false
  /** It has answered, or been open too long for an early close. */
  #isServing = false
  readonly #answerTimer: AnswerTimer

  /** `choice`: what this client may choose from. */
  constructor(context: ConnectionContext, arrival: Arrival, choice: Choice) {
    const client = arrival.socket
    this.#context = context
    this.#choice = choice
    this.acceptedAt = arrival.at
    this.#client = client
    this.record = new EndRecord(arrival)
    this.#openWay = client
    this.heldUpstream = new HeldUpstream(context.dialling.fds)
    this.#answerTimer = new AnswerTimer(context.clock, () => this.#unanswered())
    if (context.state.namesAll) this.record.name()
    // Reading starts now: only a socket that is read notices that its peer has left.
    this.#attach(client)
    client.on('timeout', () => this.#clientIdle())
    this.#begin()
  }

  /** Times count from here. */
  #begin(): void {
    const { clock, state, idleWatch } = this.#context
    this.begunAt = clock.now()
    if (state.idleMs > 0) this.#client.setTimeout(state.idleMs)
    idleWatch.begun(this)
  }

  start(): void {
    const { clock, dialling, limits, state } = this.#context
    const dial = new Dial(dialling, this, state, this.#choice, this.#attempts)
    this.dial = dial
    const pauseMs = dialPauseMs(state)
    if (pauseMs === 0) return dial.start()
    const start = (): void => (this.hasLeft ? dial.clientLeft() : dial.start())
    const startSlowly = (): void => {
      const hasEnded = this.#client.readableEnded
      if (!hasEnded || state.leftUnanswered <= manyLeft) return start()
      const ms = ofHalfClose * (this.halfCloseMs ?? limits.halfCloseTimeout)
      this.dialTimer = clock.setTimeout(start, ms)
    }
    this.dialTimer = clock.setTimeout(startSlowly, pauseMs)
  }

  get arrival(): Arrival {
    return this.record.arrival
  }

  /** Asking for it is a system call: only where the balancer uses it. */
  get clientAddress(): string {
    if (this.#context.state.balancer.usesClient) this.record.name()
    return this.record.address
  }

  get hasLeft(): boolean {
    if (isUnread(this.#client) && wasReset(this.#client)) return true
    return this.#client.readableEnded && this.#held === undefined
  }

  get opening(): Buffer | undefined {
    if (!this.arrival.asksTls) return undefined
    return Buffer.concat([this.#header ?? Buffer.alloc(0), sslRequest])
  }

  get #header(): Buffer | undefined {
    return this.arrival.header(this.#context.state.proxyProtocol)
  }

  connected(socket: Socket, backend: Backend): void {
    this.#endDial()
    this.heldUpstream.drop()
    this.#attach(socket)
    this.#serve(socket, backend, 0, this.arrival.asksTls ? undefined : this.#header)
  }

  /** `alreadySent`: so many bytes of what is held were sent to this endpoint before. */
  #serve(socket: Socket, backend: Backend, alreadySent: number, header?: Buffer): void {
    this.#backend = backend
    this.#backendSocket = socket
    this.#openSockets += 1
    backend.active += 1
    this.#context.state.sinceAnswer += 1
    this.#begin()
    const held = this.#held?.bytes.subarray(alreadySent)
    this.#held = undefined
    this.#isServing = false
    const { replay = 0, answerMs } = this.#context.state.retry ?? {}
    this.#upstream = new ReplayableUpstream(
      socket,
      replay,
      this.#answerTimer,
      alreadySent,
    )
    const room = this.#upstream.begin(header, held, answerMs)
    if (this.#client.readableEnded) this.#halfClosed(this.#client)
    else if (room) this.#client.resume()
    else this.#waitForDrain(this.#client, socket)
  }

  gaveUp(cause: GiveUpCause, detail: string): void {
    this.#endDial()
    const held = this.heldUpstream.take()
    if (held !== undefined) {
      // Its end, if there is one, is the client's to know, as what it was.
      this.#serve(held.socket, held.backend, held.sentBytes)
      if (held.socket.readableEnded) this.#halfClosed(held.socket)
      else held.socket.resume()
      return
    }
    this.record.blame(cause, detail)
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
    if (from !== this.#client && !this.#isServing) this.#answered()
    const room =
      from === this.#client
        ? this.#upstream?.send(chunk, this.#context.state.retry?.answerMs)
        : to.write(chunk)
    if (!room) this.#waitForDrain(from, to)
  }

  /** Back-pressure: nothing more is read until what is written has gone. */
  #waitForDrain(from: Socket, to: Socket): void {
    from.pause()
    to.once('drain', () => from.resume())
    this.#context.idleWatch.unread(this)
  }

  stillUnread(): boolean {
    const unread = this.sockets.filter(isUnread)
    const gone = unread.find(wasReset)
    if (gone === undefined) return unread.length > 0
    if (gone.readableEnded) this.#broken(gone, 'ECONNRESET')
    // What it sent before may still be taken: the limit of half-closed ones is for this too.
    else this.#context.idleWatch.halfClosed(this)
    return false
  }

  #end(from: Socket): void {
    const moved = from.bytesRead > this.#bytesAtHalfClose
    if (this.#closedEarly(from, wasReset(from))) return
    // In a ring no hop ends its side before its client has left.
    if (from !== this.#client && !wasReset(from)) this.#context.state.sinceAnswer = 0
    if (wasReset(from)) this.#broken(from, 'ECONNRESET')
    else if (mayBeReset(from, moved)) confirmEnd(from, () => this.#halfClosed(from))
    else this.#halfClosed(from)
  }

  #halfClosed(from: Socket): void {
    const to = this.#opposite(from)
    if (to === undefined) return this.dial?.clientEnded()
    const { idleWatch, state } = this.#context
    idleWatch.halfClosed(this)
    idleWatch.unread(this)
    if (from === this.#client && this.bytesToClient === 0 && !this.#leftUnanswered) {
      this.#leftUnanswered = true
      state.leftUnanswered += 1
    }
    this.#openWay = to
    this.#bytesAtHalfClose = to.bytesRead
    endAfterData(to)
  }

  #broken(socket: Socket, detail: string): void {
    if (this.heldUpstream.has(socket)) return this.heldUpstream.drop()
    if (!this.#isPart(socket) || this.#closedEarly(socket, true)) return
    const dialling = this.dial !== undefined
    const isClient = socket === this.#client
    this.record.blame(dialling && isClient ? 'CC' : brokenBy(!isClient, detail), detail)
    socket.destroy()
    this.#cancelDial()
    const to = this.#opposite(socket)
    const { undelivered, limits } = this.#context
    if (to !== undefined && !to.destroyed)
      passReset(to, undelivered, limits.halfCloseTimeout)
  }

  #closed(socket: Socket): void {
    if (!this.#isPart(socket)) return
    if (this.dial !== undefined) this.record.blame('CC', 'closed')
    this.#cancelDial()
    this.#openSockets -= 1
    if (this.#openSockets === 0) this.#finish()
  }

  /** Whether the endpoint has ended so early that another one is dialled in its place. */
  #closedEarly(socket: Socket, byReset: boolean): boolean {
    const unserved = this.#unserved
    if (unserved === undefined || socket !== this.#backendSocket) return false
    const ms = this.#context.clock.now() - this.#connectedAt
    if (!takeEarlyClose(unserved, ms)) return false
    const isHeld = !byReset && this.#upstream?.hasReceivedNothing === true
    this.#leave(socket, unserved.backend, isHeld)
    return true
  }

  /** The time for an answer is over. */
  #unanswered(): void {
    const unserved = this.#unserved
    const socket = this.#backendSocket
    if (unserved === undefined || socket === undefined) return
    if (!takeNoAnswer(unserved)) return
    // What comes after all has to wait: another endpoint's answer may be the client's.
    socket.pause()
    this.#leave(socket, unserved.backend, socket.writableLength === 0)
  }

  /** An endpoint that has sent nothing, where another one may be dialled. */
  get #unserved() {
    const { state } = this.#context
    const [backend, socket] = [this.#backend, this.#backendSocket]
    // Its end has been passed on, or it has served.
    if (backend === undefined || socket === undefined || this.bytesToClient > 0)
      return undefined
    const { writableEnded, destroyed } = this.#client
    if (state.retry === undefined || writableEnded || destroyed) return undefined
    return {
      service: state,
      backend,
      choice: this.#choice,
      attempts: this.#attempts,
      isReplayable: this.#upstream?.isReplayable === true,
      clientBytes: this.bytesToBackend,
      replayBytes: this.#upstream?.replayBytes,
      address: this.#address,
    }
  }

  /** Another endpoint is dialled; `isHeld`: this one may still be the client's in the end. */
  #leave(socket: Socket, backend: Backend, isHeld: boolean): void {
    this.#answerTimer.stop()
    this.#backend = undefined
    this.#backendSocket = undefined
    this.#openSockets -= 1
    this.#begin()
    this.#held = this.#upstream?.takeReplayBuffer()
    if (isHeld)
      this.heldUpstream.hold({ socket, backend, sentBytes: this.#held?.length ?? 0 })
    else socket.destroy()
    this.start()
  }

  #isPart(socket: Socket): boolean {
    return socket === this.#client || socket === this.#backendSocket
  }

  #opposite(socket: Socket): Socket | undefined {
    return socket === this.#client ? this.#backendSocket : this.#client
  }

  /** No endpoint is connected yet; beyond the bound it waits in the kernel's queue. */
  #hold(chunk: Buffer): void {
    const { connectionBuffer } = this.#context.limits
    this.#held ??= new GrowingBytes(connectionBuffer)
    this.#held.add(chunk)
    if (this.#held.length >= connectionBuffer) this.#client.pause()
  }

  #idle(socket: Socket): void {
    this.record.blame(socket === this.#client ? 'cD' : 'sD', 'ETIMEDOUT')
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

  /** The first has come from the endpoint. */
  #answered(): void {
    this.confirmServing()
    this.#context.state.sinceAnswer = 0
    if (this.#attempts.length > 1)
      noteUnserved(
        this.#context.state,
        this.#attempts,
        this.bytesToBackend,
        this.#address,
      )
  }

  readonly #address = (): string => this.record.arrival.source.address

  get halfCloseMs(): number | undefined {
    return this.#context.state.ages?.idleMs
  }

  /** The endpoint does what it is there for; where an answer is awaited, time alone does not show that. */
  confirmServing(): void {
    const { state } = this.#context
    const hasAnswered = this.bytesToClient > 0
    if (hasAnswered) this.#answerTimer.stop()
    this.#isServing = hasAnswered
    if (state.retry === undefined || this.#backend === undefined) return
    const isServed = hasAnswered || state.retry.answerMs === undefined
    if (isServed || this.bytesToBackend > 0) this.#upstream?.dropReplayBuffer()
    // An end that was passed on is no service.
    const hasLeft = !hasAnswered && this.#backendSocket?.readableEnded
    if (isServed && !hasLeft) state.served(this.#backend)
  }

  enableKeepAlive(): void {
    if (this.#backend !== undefined) this.confirmServing()
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
    this.record.blame(cause, detail)
    this.#cancelDial()
    this.#reset()
  }

  get bytesToBackend(): number {
    return this.#backendSocket === undefined ? 0 : this.record.arrival.bytesRead
  }

  get bytesToClient(): number {
    return this.#backendSocket === undefined ? 0 : (this.#upstream?.receivedBytes ?? 0)
  }

  /** Key of where it is connected to, '' while it is not. */
  get endpoint(): string {
    return this.#backend?.key ?? ''
  }

  /** What kept it from being served, for the status; '' when it reached an endpoint. */
  get failure(): string {
    const { cause, detail } = this.record
    return this.#backendSocket === undefined && cause !== 'CC' ? detail : ''
  }

  #reset(): void {
    reset(this.#client)
    if (this.#backendSocket !== undefined) reset(this.#backendSocket)
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

  /** Where it was is counted no more. */
  #finish(): void {
    const { state } = this.#context
    const { counters } = state
    if (this.#backend !== undefined) this.#backend.active -= 1
    if (this.#leftUnanswered) state.leftUnanswered -= 1
    counters.add('bytesToBackend', this.bytesToBackend)
    counters.add('bytesToClient', this.bytesToClient)
    const { cause } = this.record
    if (cause !== '--') counters.countFailure(cause)
    this.heldUpstream.drop()
    this.#answerTimer.stop()
    this.#context.idleWatch.ended(this)
    this.#context.ended(this)
    const address = (): string => this.record.address
    state.ended(cause, address, () => this.#endReport())
  }

  #endReport(): EndReport {
    const { state, clock } = this.#context
    const attempts = attemptRecords(this.#attempts)
    const at = this.#connectedAt
    const record = this.record.of(state.spec.name, this, attempts, at, clock.now())
    return { record, waited: this, open: this.#context.open(this.#backend) }
  }
}

// One direction of a connection: what is written to a socket, from the one opposite.

/** A FIN behind data that is stuck would be in the way of a reset later on. */
const endAfterData = (to: Socket): void => {
  if (to.writableLength === 0) to.end()
  else to.write(nothing, () => to.end())
}

/**
 * What was received before the reset is delivered first, within `ms`: the kernel drops what it has
 * not sent when a socket is closed with a reset.
 */
const passReset = (to: Socket, undelivered: Undelivered, ms: number): void => {
  to.pause()
  if (to.bytesWritten === 0) reset(to)
  else undelivered.wait(to, ms, () => reset(to))
}

const nothing = Buffer.alloc(0)

/** An endpoint that has ended in order before its first byte, or is silent; it may still be reading. */
interface UnservedUpstream {
  readonly socket: Socket
  readonly backend: Backend
  /** Bytes of the client that it has been sent. */
  readonly sentBytes: number
}

/** The last such endpoint of a connection, held open for its client while others are dialled. */
class HeldUpstream {
  readonly #fds: Pick<FdBudget, 'take' | 'release'>
  #upstream: UnservedUpstream | undefined

  constructor(fds: Pick<FdBudget, 'take' | 'release'>) {
    this.#fds = fds
  }

  has(socket: Socket): boolean {
    return this.#upstream?.socket === socket
  }

  /** If its endpoint is to be cut: then it is not the client's to know any more. */
  cut(endpoints: Pick<Cut, 'has'>): void {
    if (this.#upstream !== undefined && endpoints.has(this.#upstream.backend.key))
      this.drop()
  }

  /** In place of the one before. Costs a descriptor more; without one to spare it is closed. */
  hold(upstream: UnservedUpstream): void {
    this.drop()
    if (this.#fds.take(1)) this.#upstream = upstream
    else upstream.socket.destroy()
  }

  take(): UnservedUpstream | undefined {
    const upstream = this.#upstream
    if (upstream !== undefined) this.#fds.release(1)
    this.#upstream = undefined
    return upstream
  }

  drop(): void {
    this.take()?.socket.destroy()
  }
}
