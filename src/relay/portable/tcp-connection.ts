import type { Socket } from 'node:net'
import { unmapped } from '../../util/ip.ts'
import type { Backend } from '../backend.ts'
import type { Cause } from '../cause.ts'
import { countFailure } from '../counters.ts'
import { errorCode } from '../dial-errors.ts'
import type { ConnectionRecord, RelayObserver } from '../relay.ts'
import type { GiveUpCause } from '../retry-plan.ts'
import { Dial, type DialContext, type Dialler } from './dial.ts'
import { reset, wasReset } from './reset.ts'
import type { Patrol, Patrolled } from './patrol.ts'
import type { Undelivered } from './undelivered.ts'

/** What a connection needs of the listener that accepted it. */
export interface ConnectionContext extends DialContext {
  readonly name: string
  readonly undelivered: Undelivered
  readonly patrol: Patrol
  readonly observer: RelayObserver
  /** Said once, when both sockets are closed. */
  ended(connection: TcpConnection): void
}

/**
 * Idle time before the first probe; Node adds an interval of 1 s and 10 probes. Go's 15 s,
 * as kube-proxy had.
 */
const keepAliveIdleMs = 15_000

const kConnection = Symbol('connection')
const kPeer = Symbol('peer')

/** A socket that knows its connection and, once there is one, the socket opposite. */
interface RelayedSocket extends Socket {
  [kConnection]: TcpConnection
  [kPeer]: RelayedSocket | undefined
}

// The data path: two half-duplex copies. The same few functions serve every socket, so
// that an idle connection costs no closures and a chunk costs one call.

function onData(this: RelayedSocket, chunk: Buffer): void {
  const peer = this[kPeer]
  if (peer === undefined) this[kConnection].hold(chunk)
  else if (!peer.write(chunk)) waitForDrain(this, peer)
}

/** Back-pressure: nothing more is read until what is written has gone. */
const waitForDrain = (from: RelayedSocket, to: RelayedSocket): void => {
  from.pause()
  if (to.listenerCount('drain') === 0) to.on('drain', onDrain)
}

function onDrain(this: RelayedSocket): void {
  this[kPeer]?.resume()
}

function onEnd(this: RelayedSocket): void {
  if (wasReset(this)) this[kConnection].broken(this, 'ECONNRESET')
  else this[kConnection].halfClosed(this)
}

function onError(this: RelayedSocket, error: NodeJS.ErrnoException): void {
  this[kConnection].broken(this, errorCode(error))
}

function onTimeout(this: RelayedSocket): void {
  this[kConnection].idle(this)
}

function onClose(this: RelayedSocket): void {
  this[kConnection].closed()
}

const adopt = (socket: Socket, connection: TcpConnection): RelayedSocket => {
  const relayed = socket as RelayedSocket
  relayed[kConnection] = connection
  relayed[kPeer] = undefined
  relayed.on('data', onData)
  relayed.on('end', onEnd)
  relayed.on('error', onError)
  relayed.on('close', onClose)
  return relayed
}

/** One relayed TCP connection: accepted, dialled, copied both ways, closed, recorded. */
export class TcpConnection implements Dialler, Patrolled {
  readonly #context: ConnectionContext
  readonly #client: RelayedSocket
  readonly #clientAddress: string
  readonly #clientPort: number
  readonly acceptedAt: number
  #connectedAt = 0
  #dial: Dial | undefined
  #record: Dial['attempts'] = []
  #backend: Backend | undefined
  #backendSocket: RelayedSocket | undefined
  /** What the client sent before there was somebody to send it to. */
  #held: Buffer[] = []
  #heldBytes = 0
  #openSockets = 1
  /** When half-closed: the socket whose side has not ended. */
  #openWay: RelayedSocket
  #cause: Cause = '--'
  #detail = ''

  constructor(context: ConnectionContext, client: Socket) {
    this.#context = context
    this.acceptedAt = context.clock.now()
    this.#clientAddress = unmapped(client.remoteAddress ?? '')
    this.#clientPort = client.remotePort ?? 0
    // Reading starts now: only a socket that is read tells that its peer has left.
    this.#client = adopt(client, this)
    this.#openWay = this.#client
    const { tcpIdleMs } = context.limits
    if (tcpIdleMs > 0) this.#client.setTimeout(tcpIdleMs).on('timeout', onTimeout)
    context.patrol.accepted(this)
  }

  start(): void {
    this.#dial = new Dial(this.#context, this.#clientAddress, this)
    this.#dial.start()
  }

  connected(socket: Socket, backend: Backend): void {
    const client = this.#client
    const opposite = adopt(socket, this)
    this.#endDial()
    this.#backend = backend
    this.#backendSocket = opposite
    this.#openSockets += 1
    backend.active += 1
    opposite[kPeer] = client
    client[kPeer] = opposite
    let room = true
    for (const chunk of this.#held) room = opposite.write(chunk)
    this.#held = []
    if (client.readableEnded) this.halfClosed(client)
    else if (room) client.resume()
    else waitForDrain(client, opposite)
  }

  gaveUp(cause: GiveUpCause, detail: string): void {
    this.#endDial()
    this.#blame(cause, detail)
    reset(this.#client)
  }

  hold(chunk: Buffer): void {
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    if (this.#heldBytes >= this.#context.limits.bufferBytes) this.#client.pause()
  }

  halfClosed(from: RelayedSocket): void {
    const to = from[kPeer]
    if (to === undefined) return
    this.#context.patrol.halfClosed(this)
    this.#openWay = to
    to.end()
  }

  broken(socket: RelayedSocket, detail: string): void {
    const byClient = socket === this.#client
    const dialling = this.#dial !== undefined
    this.#blame(byClient ? (dialling ? 'CC' : 'CD') : 'SD', detail)
    socket.destroy()
    this.#dial?.cancel()
    this.#endDial()
    const peer = socket[kPeer]
    if (peer !== undefined && !peer.destroyed) this.#passReset(peer)
  }

  idle(socket: RelayedSocket): void {
    this.#blame(socket === this.#client ? 'cD' : 'sD', 'ETIMEDOUT')
    this.#reset()
  }

  /** Half-closed, and nothing moves: the side that could still send is the idle one. */
  endIdle(): void {
    this.idle(this.#openWay)
  }

  enableKeepAlive(): void {
    this.#client.setKeepAlive(true, keepAliveIdleMs)
    this.#backendSocket?.setKeepAlive(true, keepAliveIdleMs)
  }

  get bytesMoved(): number {
    return this.bytesToBackend + this.bytesToClient
  }

  /** Ends the connection at once; for the end of the drain time. */
  kill(cause: Cause, detail: string): void {
    this.#blame(cause, detail)
    this.#dial?.cancel()
    this.#endDial()
    this.#reset()
  }

  closed(): void {
    if (this.#dial !== undefined) {
      this.#blame('CC', 'closed')
      this.#dial.cancel()
      this.#endDial()
    }
    this.#openSockets -= 1
    if (this.#openSockets === 0) this.#finish()
  }

  get bytesToBackend(): number {
    return this.#backendSocket === undefined ? 0 : this.#client.bytesRead
  }

  get bytesToClient(): number {
    return this.#backendSocket?.bytesRead ?? 0
  }

  /** What kept it from being served, for the status; '' when it reached an endpoint. */
  get failure(): string {
    return this.#backendSocket === undefined && this.#cause !== 'CC' ? this.#detail : ''
  }

  /**
   * What was received before the reset is delivered first: the kernel drops what it has
   * not sent when a socket is closed with a reset.
   */
  #passReset(to: RelayedSocket): void {
    const { undelivered, limits } = this.#context
    to.pause()
    if (to.bytesWritten === 0) reset(to)
    else undelivered.wait(to, limits.halfCloseIdleMs, () => reset(to))
  }

  #reset(): void {
    reset(this.#client)
    if (this.#backendSocket !== undefined) reset(this.#backendSocket)
  }

  /** The first cause is the cause: what follows from it is not told. */
  #blame(cause: Cause, detail: string): void {
    if (this.#cause !== '--') return
    this.#cause = cause
    this.#detail = detail
  }

  #endDial(): void {
    if (this.#dial === undefined) return
    this.#record = this.#dial.attempts
    this.#dial = undefined
    this.#connectedAt = this.#context.clock.now()
  }

  #finish(): void {
    const { counters, observer } = this.#context
    if (this.#backend !== undefined) this.#backend.active -= 1
    counters.bytesToBackend += this.bytesToBackend
    counters.bytesToClient += this.bytesToClient
    if (this.#cause !== '--') countFailure(counters, this.#cause)
    if (observer.wants(this.#cause)) observer.connectionClosed(this.#describe())
    this.#context.patrol.ended(this)
    this.#context.ended(this)
  }

  #describe(): ConnectionRecord {
    const port = this.#clientPort
    const host = this.#clientAddress
    return {
      listener: this.#context.name,
      client: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
      endpoint: this.#backend?.key ?? '',
      attempts: this.#record,
      bytesToBackend: this.bytesToBackend,
      bytesToClient: this.bytesToClient,
      dialMs: this.#connectedAt - this.acceptedAt,
      totalMs: this.#context.clock.now() - this.acceptedAt,
      cause: this.#cause,
      detail: this.#detail,
    }
  }
}
