import { createServer, type Server, type Socket } from 'node:net'
import { joinHostPort, unmapped } from '../../util/ip.ts'
import { cutOf } from '../cut.ts'
import { turnedAway } from '../front.ts'
import { bindKey, type Bind, type ListenerStats, type RelayListener } from '../relay.ts'
import { acceptGate } from './accept-gate.ts'
import type { Listening } from '../bind-set.ts'
import { ListenerState } from './listener-state.ts'
import type { ListenerOwner, PortListener, RelayEnv } from './port-listener.ts'
import { reset } from './reset.ts'
import { type ConnectionContext, TcpConnection } from './tcp-connection.ts'

/** The kernel caps it at net.core.somaxconn. */
const backlog = 4096

/** Each connection holds one descriptor for the client and one for the backend. */
const fdsPerConnection = 2

export class TcpListener implements PortListener {
  readonly #env: RelayEnv
  readonly #owner: ListenerOwner
  readonly #state: ListenerState
  readonly #connections = new Set<TcpConnection>()
  readonly #context: ConnectionContext

  constructor(env: RelayEnv, spec: RelayListener, owner: ListenerOwner) {
    this.#env = env
    this.#owner = owner
    this.#state = new ListenerState(env, spec, bind => this.#open(bind))
    this.#context = {
      ...env,
      state: this.#state,
      ended: connection => this.#ended(connection),
    }
  }

  update(spec: RelayListener): void {
    this.#state.take(spec)
    const cut = cutOf(spec)
    if (cut === undefined && spec.paused !== true) return
    for (const connection of this.#connections) {
      const { dial, endpoint } = connection
      if (cut !== undefined) connection.keptEnd.cut(cut)
      if (dial !== undefined && spec.paused === true) dial.pause()
      else if (endpoint !== '' && cut?.has(endpoint)) connection.kill('DD', cut.detail)
      else if (cut !== undefined && spec.cut !== 'all') dial?.cut(cut)
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
    if (this.#connections.size === 0) this.#owner.retired()
  }

  kill(): number {
    const count = this.#connections.size
    for (const connection of this.#connections) connection.kill('KD', 'drain time over')
    return count
  }

  stats(): ListenerStats {
    const counters = { ...this.#state.counters.totals, active: this.#connections.size }
    for (const connection of this.#connections) {
      counters.bytesToBackend += connection.bytesToBackend
      counters.bytesToClient += connection.bytesToClient
    }
    return this.#state.stats(counters)
  }

  async #open(bind: Bind): Promise<Listening> {
    const passed = this.#env.handover.take(bind)
    const listening = this.#serve(passed?.server ?? (await this.#openServer(bind)), bind)
    passed?.adopt()
    return listening
  }

  #openServer({ address, port }: Bind): Promise<Server> {
    return new Promise((resolve, reject) => {
      const server = createServer({
        allowHalfOpen: true,
        noDelay: true,
        highWaterMark: this.#env.limits.connectionBuffer,
      })
      server.once('error', reject)
      server.listen(
        { host: address, port, backlog, ipv6Only: true, exclusive: true },
        () => {
          server.removeListener('error', reject)
          resolve(server)
        },
      )
    })
  }

  #serve(server: Server, bind: Bind): Listening {
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
        // Who comes before it has a taker waits in the kernel, and costs no descriptor.
        gate.stop()
      }
      server.removeAllListeners('connection').removeAllListeners('error')
      handover.offer(bind, server)
    }
    return { close }
  }

  #accept(client: Socket, bind: string): void {
    const { counters, fronts } = this.#state
    counters.add('accepted', 1)
    const front = fronts.at(bind)
    // Asking for the address is a system call, which most connections are spared.
    const choice = front?.asksForClient
      ? front.admit(unmapped(client.remoteAddress ?? ''), client.localAddress)
      : front?.admit('')
    if (choice === undefined) return this.#turnAway(client, 'PR')
    if (!this.#env.budget.take(fdsPerConnection)) return this.#turnAway(client, 'RC')
    const connection = new TcpConnection(this.#context, client, choice)
    this.#connections.add(connection)
    this.#owner.connectionBegun()
    connection.start()
  }

  /** At once: a client that may not connect, or can't, costs neither a dial nor a place in the budget. */
  #turnAway(client: Socket, cause: 'PR' | 'RC'): void {
    const { observer } = this.#env
    const { counters, spec } = this.#state
    counters.countFailure(cause)
    if (observer.wants(cause))
      observer.connectionClosed(turnedAway(spec.name, clientOf(client), cause))
    reset(client)
  }

  #ended(connection: TcpConnection): void {
    this.#env.budget.release(fdsPerConnection)
    this.#connections.delete(connection)
    if (connection.failure !== '') this.#state.lastError = connection.failure
    this.#owner.connectionEnded()
    if (!this.#state.wanted && this.#connections.size === 0) this.#owner.retired()
  }
}

const clientOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string =>
  joinHostPort(unmapped(remoteAddress), remotePort)
