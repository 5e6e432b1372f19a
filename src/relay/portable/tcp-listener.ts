import { createServer, type Socket, type Server } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import { isAmongAny } from '../../util/address-ranges.ts'
import { addressWords } from '../../util/cidr.ts'
import { joinHostPort } from '../../util/ip.ts'
import { isUnix, accessOf, unixPath } from '../../util/unix-address.ts'
import { notWaited, type OpenNow } from '../access-log/access-entry.ts'
import type { Cause } from '../cause.ts'
import { type ClientKey, clientKey } from '../client-table.ts'
import type { Counted } from '../connection-limiter.ts'
import { cutOf } from '../cut.ts'
import type { Explanation, ExplainQuery } from '../explanation.ts'
import { type Choice, turnedAway, type Backend } from '../front.ts'
import {
  type Preface,
  type PrefaceRules,
  mostPrefaceBytes,
  noRules,
  prefaceMs,
} from '../preface.ts'
import { bindKey, type Bind, type ListenerStats, type RelayListener } from '../relay.ts'
import { acceptGate } from './accept-gate.ts'
import { Arrival } from './arrival.ts'
import type { Listening } from '../bind-set.ts'
import type { Served } from './handover.ts'
import { ListenerState, type EndReport } from './listener-state.ts'
import type { ListenerOwner, PortListener, RelayEnv } from './port-listener.ts'
import { reset } from './reset.ts'
import { type ConnectionContext, TcpConnection } from './tcp-connection.ts'
import { abstractPlace } from '../../util/connect-to.ts'
import { listenAt } from '../../util/listen-at.ts'
import { placeSocket } from '../../util/placed-socket.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import { errorCode } from '../../util/usher-error.ts'
import { GrowingBytes } from '../../util/growing-bytes.ts'

/** Each connection holds one descriptor for the client and one for the backend. */
const fdsPerConnection = 2

export class TcpListener implements PortListener {
  readonly #env: RelayEnv
  readonly #owner: ListenerOwner
  readonly #state: ListenerState
  readonly #connections = new Set<TcpConnection>()
  /** Connections that count in limits. */
  readonly #counted = new Map<TcpConnection, Counted>()
  /** Those that are not connections yet. */
  readonly #prefaces = new Set<PrefaceClient>()
  readonly #context: ConnectionContext
  /** Connections to some endpoints are closed as they are idle. */
  #isDrained = false

  constructor(env: RelayEnv, spec: RelayListener, owner: ListenerOwner) {
    this.#env = env
    this.#owner = owner
    this.#state = new ListenerState(env, spec, bind => this.#open(bind))
    this.#context = {
      ...env,
      state: this.#state,
      ended: connection => this.#ended(connection),
      open: endpoint => this.#openNow(endpoint),
    }
  }

  update(spec: RelayListener): void {
    const { ages, limiter, spec: before } = this.#state
    this.#state.take(spec)
    if (limiter === undefined) this.#limited()
    if (!isDeepStrictEqual(ages, this.#state.ages)) this.#agesChanged()
    if (this.#state.capacity.hasNewPlaces) this.#takePlaces()
    const cut = cutOf(spec, before)
    const { idleWatch } = this.#env
    const wasDrained = this.#isDrained
    this.#isDrained = spec.drained?.some(({ close }) => close === 'idle') ?? false
    if (cut === undefined && spec.paused !== true && !wasDrained) return
    for (const connection of this.#connections) {
      const { dial, endpoint } = connection
      if (cut !== undefined) connection.heldUpstream.cut(cut)
      idleWatch.drained(connection, endpoint !== '' && cut?.isIdleCut(endpoint) === true)
      if (dial !== undefined && spec.paused === true) dial.pause()
      else if (endpoint !== '' && cut?.has(endpoint))
        connection.kill('DD', cut.detailOf(endpoint))
      else if (cut !== undefined) dial?.cut(cut.dials)
    }
  }

  /** What is open counts in the limits that there were none of before. */
  #limited(): void {
    const { limiter } = this.#state
    if (limiter === undefined) return
    for (const connection of this.#connections) {
      if (this.#counted.has(connection)) continue
      const client = keyOf(connection.arrival)
      limiter.adopt(client, this.#env.clock.now())
      this.#counted.set(connection, { limiter, client })
    }
  }

  /** Those that were there before their endpoint had a limit count, too. */
  #takePlaces(): void {
    this.#state.capacity.hasNewPlaces = false
    for (const { endpoint, sockets } of this.#connections) {
      const [, socket] = sockets
      const { places } = this.#state.listedAt(endpoint) ?? {}
      if (socket !== undefined) this.#env.dialling.placed.take(socket, places)
    }
  }

  #agesChanged(): void {
    const { ages, idleMs } = this.#state
    for (const connection of this.#connections) {
      connection.sockets[0]?.setTimeout(idleMs)
      this.#env.lifetimes.set(connection, ages?.lifetimeMs)
    }
  }

  sweep(): void {
    this.#state.balancer.sweep()
  }

  listen(): Promise<void> {
    return this.#state.binds.listen()
  }

  stopAccepting(): void {
    this.#state.ends = true
    this.#state.stopListening('shutting down')
  }

  retire(): void {
    this.#state.ends = true
    this.#state.retire()
    if (this.#here === 0) this.#owner.retired()
  }

  kill(): number {
    const count = this.#here
    for (const client of this.#prefaces) client.kill()
    for (const connection of this.#connections) connection.kill('KD', 'drain time over')
    return count
  }

  explain(query: ExplainQuery): Explanation {
    return this.#state.explain(query)
  }

  stats(): ListenerStats {
    const counters = { ...this.#state.counters.totals(), active: this.#here }
    for (const connection of this.#connections) {
      counters.bytesToBackend += connection.bytesToBackend
      counters.bytesToClient += connection.bytesToClient
    }
    return this.#state.stats(counters)
  }

  async #open(bind: Bind): Promise<Listening> {
    const passed = this.#env.handover.take(bind)
    const listening = this.#serve(passed?.served ?? (await this.#openServer(bind)), bind)
    passed?.adopt()
    return listening
  }

  #openServer(bind: Bind): Promise<Served> {
    const server = createServer({
      allowHalfOpen: true,
      noDelay: true,
      highWaterMark: this.#env.limits.connectionBuffer,
    })
    return serve(server, bind)
  }

  #serve(served: Served, bind: Bind): Listening {
    const { server } = served
    const { gates, budget, observer, handover } = this.#env
    const key = bindKey(bind)
    server.on('connection', socket => this.#accept(socket, key))
    server.on('error', error => observer.fault(this.#state.spec.name, error))
    const gate = acceptGate(server)
    if (gate !== undefined) {
      gates.add(gate)
      if (budget.exhausted) gate.stop()
    }
    const close = (): void => {
      if (gate !== undefined) {
        gates.delete(gate)
        // Until a listener adopts the server, clients wait in the accept queue.
        gate.stop()
      }
      server.removeAllListeners('connection').removeAllListeners('error')
      handover.offer(bind, served)
    }
    return { ...served, close }
  }

  #accept(client: Socket, bind: string): void {
    const { counters, fronts, preface, probers } = this.#state
    const arrival = new Arrival(client, this.#env.clock.now(), isUnix(bind))
    if (probers !== undefined) {
      const words = addressWords(arrival.source.address)
      if (words !== undefined && isAmongAny(probers, words)) return void client.destroy()
    }
    counters.add('accepted', 1)
    if (preface !== undefined && this.#listens(arrival, bind, preface)) return
    const choice = arrival.choiceOf(fronts.at(bind))
    if (choice === undefined) return this.#turnAway(arrival, 'PR')
    const begin = (counted?: Counted): void => this.#begin(arrival, choice, counted)
    this.#enter(arrival, this.#count(arrival), begin)
  }

  /** Unless it is over a limit, or of descriptors. */
  #enter(
    arrival: Arrival,
    counted: Counted | string | undefined,
    begin: (counted?: Counted) => void,
  ): void {
    if (typeof counted === 'string') return this.#turnAway(arrival, 'PL', counted)
    if (!this.#env.budget.take(fdsPerConnection)) {
      this.#uncount(counted)
      return this.#turnAway(arrival, 'RC')
    }
    this.#owner.connectionBegun()
    begin(counted)
  }

  /** Whether something is to be read of a client before an endpoint is chosen for it. */
  #listens(arrival: Arrival, bind: string, rules: PrefaceRules): boolean {
    const words = addressWords(arrival.source.address)
    const hasHeader = words !== undefined && rules.expectsHeader(words)
    if (!hasHeader && !rules.readsHello) return false
    const begin = (counted?: Counted): void =>
      this.#listen(arrival, bind, hasHeader, counted)
    // Its PROXY header, which names it, has yet to come.
    if (hasHeader) this.#enter(arrival, undefined, begin)
    else if (!arrival.isLetIn(this.#state.fronts.at(bind))) this.#turnAway(arrival, 'PR')
    // It counts: it may take its time.
    else this.#enter(arrival, this.#count(arrival), begin)
    return true
  }

  /** Something is to be read of a client before an endpoint is chosen for it. */
  #listen(arrival: Arrival, bind: string, hasHeader: boolean, known?: Counted): void {
    const refuse = (cause: Cause, detail?: string): void => {
      this.#prefaces.delete(client)
      this.#uncount(known)
      this.#refused(arrival, cause, detail)
    }
    const read = (preface: Preface): void => {
      const choice = arrival.choiceOf(this.#state.fronts.at(bind), preface.pool)
      if (preface.refusal !== '') return refuse('PN', preface.refusal)
      if (choice === undefined) return refuse('PR')
      const counted = known ?? this.#count(arrival)
      if (typeof counted === 'string') return refuse('PL', counted)
      this.#prefaces.delete(client)
      this.#begin(arrival, choice, counted)
    }
    const context = { clock: this.#env.clock, state: this.#state, read, refused: refuse }
    const client = new PrefaceClient(arrival, hasHeader, context)
    this.#prefaces.add(client)
  }

  #refused(arrival: Arrival, cause: Cause, detail?: string): void {
    this.#turnAway(arrival, cause, detail)
    if (detail !== undefined && cause !== 'CC') this.#state.lastError = detail
    this.#gone()
  }

  #begin(arrival: Arrival, choice: Choice, counted: Counted | undefined): void {
    const connection = new TcpConnection(this.#context, arrival, choice)
    this.#connections.add(connection)
    if (counted !== undefined) this.#counted.set(connection, counted)
    this.#env.open.begun(connection, () => this.#state.spec.name)
    connection.start()
    const { ages } = this.#state
    if (ages !== undefined) this.#env.lifetimes.set(connection, ages.lifetimeMs)
  }

  /** At once: a client that may not connect, or can't, costs neither a dial nor a place in the budget. */
  #turnAway(arrival: Arrival, cause: Cause, detail?: string): void {
    const { counters, spec } = this.#state
    counters.countFailure(cause)
    const report = (): EndReport => {
      const { address, port } = arrival.source
      const ms = this.#env.clock.now() - arrival.at
      const client = joinHostPort(address, port)
      const record = turnedAway(spec.name, client, cause, detail, ms)
      return { record, waited: notWaited, open: this.#openNow(undefined) }
    }
    this.#state.ended(cause, () => arrival.source.address, report)
    reset(arrival.socket)
  }

  #openNow(endpoint: Backend | undefined): OpenNow {
    const { size } = this.#connections
    return { all: size, route: size, endpoint: endpoint?.active ?? 0 }
  }

  /** Counts a client in limits, if there are any; a text is the one that is reached. */
  #count(arrival: Arrival): Counted | string | undefined {
    const { limiter } = this.#state
    if (limiter === undefined) return undefined
    const client = keyOf(arrival)
    return limiter.take(client, this.#env.clock.now()) ?? { limiter, client }
  }

  #uncount(counted: Counted | undefined): void {
    counted?.limiter.ended(counted.client, this.#env.clock.now())
  }

  #ended(connection: TcpConnection): void {
    if (this.#counted.size > 0) {
      this.#uncount(this.#counted.get(connection))
      this.#counted.delete(connection)
    }
    this.#connections.delete(connection)
    this.#env.lifetimes.ended(connection)
    this.#env.open.ended(connection)
    if (connection.failure !== '') this.#state.lastError = connection.failure
    this.#gone()
  }

  /** A client has, which was a connection or not yet. */
  #gone(): void {
    this.#env.budget.release(fdsPerConnection)
    this.#owner.connectionEnded()
    if (!this.#state.wanted && this.#here === 0) this.#owner.retired()
  }

  get #here(): number {
    return this.#connections.size + this.#prefaces.size
  }
}

const keyOf = ({ source }: Arrival): ClientKey =>
  clientKey(addressWords(source.address) ?? [])

/** The kernel caps it at net.core.somaxconn. */
const backlog = 4096

/** Has a server listen on an address of TCP, or on a unix socket. */
const serve = async (server: Server, bind: Bind): Promise<Served> => {
  const { address, port } = bind
  const close = (): void => void server.close()
  if (!isUnix(address)) {
    const where = { host: address, port, backlog, ipv6Only: true, exclusive: true }
    await listenAt(server, where)
    return { server, close }
  }
  const path = unixPath(address)
  if (path.startsWith('\0')) {
    await listenAt(server, { ...abstractPlace(path), backlog })
    return { server, close }
  }
  try {
    const file = await placeSocket(path, accessOf(address), draft =>
      listenAt(server, { path: draft, backlog }),
    )
    return {
      server,
      missing: file.missing,
      close: () => {
        file.remove()
        close()
      },
    }
  } catch (error) {
    if (server.listening) close()
    throw error
  }
}

interface PrefaceContext {
  readonly clock: Clock
  readonly state: Pick<ListenerState, 'preface'>
  /** All of it is there; the socket still has what is for the endpoint. */
  read(preface: Preface): void
  refused(cause: Cause, detail: string): void
}

/** A client that has to send something before an endpoint is chosen for it. */
class PrefaceClient {
  readonly #arrival: Arrival
  readonly #socket: Socket
  readonly #hasHeader: boolean
  readonly #context: PrefaceContext
  readonly #receivedBytes = new GrowingBytes(mostPrefaceBytes)
  readonly #timer: Timer
  /** How many of its requests were answered. */
  #answeredBytes = 0

  /** `hasHeader`: it begins with a header of the PROXY protocol. */
  constructor(arrival: Arrival, hasHeader: boolean, context: PrefaceContext) {
    this.#arrival = arrival
    this.#socket = arrival.socket
    this.#hasHeader = hasHeader
    this.#context = context
    const late = `not whole after ${prefaceMs / 1000} s`
    this.#timer = context.clock.setTimeout(() => this.#refuse('PH', late), prefaceMs)
    this.#socket.on('data', this.#data).on('end', this.#ended).on('error', this.#failed)
  }

  kill(): void {
    this.#refuse('KD', 'drain time over')
  }

  readonly #data = (chunk: Buffer): void => {
    this.#receivedBytes.add(chunk)
    const { bytes } = this.#receivedBytes
    // By what holds now, as the choice that follows is.
    const rules = this.#context.state.preface ?? noRules
    const found = rules.read(bytes, this.#hasHeader, answers => {
      this.#socket.write(answers.slice(this.#answeredBytes))
      this.#answeredBytes = answers.length
    })
    if (typeof found === 'string') this.#refuse('PH', found)
    else if (found !== undefined) this.#take(found, bytes.subarray(found.headerBytes))
  }

  readonly #ended = (): void => this.#left('closed')

  readonly #failed = (error: Error): void => this.#left(errorCode(error))

  /** A client that has sent nothing has only checked whether the port is open. */
  #left(detail: string): void {
    this.#refuse(this.#receivedBytes.length === 0 ? 'CC' : 'PH', detail)
  }

  #take(preface: Preface, rest: Buffer): void {
    this.#end()
    this.#arrival.takePreface(preface)
    this.#socket.pause()
    if (rest.length > 0) this.#socket.unshift(rest)
    this.#context.read(preface)
    if (!this.#socket.destroyed) this.#socket.resume()
  }

  #refuse(cause: Cause, detail: string): void {
    this.#end()
    // What comes of its end is nobody's any more.
    this.#socket.on('error', () => {})
    this.#context.refused(cause, detail)
  }

  #end(): void {
    this.#context.clock.clearTimeout(this.#timer)
    this.#socket
      .off('data', this.#data)
      .off('end', this.#ended)
      .off('error', this.#failed)
  }
}
