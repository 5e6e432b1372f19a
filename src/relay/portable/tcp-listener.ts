import { createServer, type Server, type Socket } from 'node:net'
import { Balancer } from '../../balance/balancer.ts'
import { type Backend, nextBackends } from '../backend.ts'
import { countFailure, newCounters } from '../counters.ts'
import type { Bind, BindState, ListenerStats, RelayListener } from '../relay.ts'
import { acceptGate } from './accept-gate.ts'
import { BindSet, type Listening } from './bind-set.ts'
import type { ListenerOwner, PortListener, RelayEnv } from './port-listener.ts'
import { reset } from './reset.ts'
import { type ConnectionContext, TcpConnection } from './tcp-connection.ts'

/** The kernel caps it at net.core.somaxconn. */
const backlog = 4096

/** Each connection holds one descriptor for the client and one for the backend. */
const fdsPerConnection = 2

export class TcpListener implements PortListener {
  #spec: RelayListener
  #wanted = true
  #lastError = ''
  #backends = new Map<string, Backend>()
  readonly #env: RelayEnv
  readonly #owner: ListenerOwner
  readonly #balancer: Balancer<Backend>
  readonly #counters = newCounters()
  readonly #connections = new Set<TcpConnection>()
  readonly #binds: BindSet
  readonly #context: ConnectionContext

  constructor(env: RelayEnv, spec: RelayListener, owner: ListenerOwner) {
    this.#env = env
    this.#spec = spec
    this.#owner = owner
    this.#balancer = new Balancer(env.clock, env.random)
    this.#binds = new BindSet(
      bind => this.#open(bind),
      state => this.#bindChanged(state),
    )
    this.#context = {
      ...env,
      name: spec.name,
      balancer: this.#balancer,
      counters: this.#counters,
      ended: connection => this.#ended(connection),
    }
  }

  update(spec: RelayListener): void {
    this.#spec = spec
    this.#wanted = true
    this.#backends = nextBackends(this.#backends, spec.endpoints)
    this.#balancer.setEndpoints([...this.#backends.values()])
    this.#balancer.setAffinity(spec.affinityMs)
    this.#balancer.sweep()
    if (spec.endpoints.length > 0) this.#binds.keepOnly(spec.binds)
    else this.#binds.refuse(spec.binds, 'no endpoints')
  }

  async listen(): Promise<void> {
    const { binds, endpoints } = this.#spec
    if (endpoints.length > 0) await this.#binds.listen(binds)
  }

  stopAccepting(): void {
    this.#binds.refuse(this.#spec.binds, 'shutting down')
  }

  retire(): void {
    this.#wanted = false
    this.#binds.refuse([], '')
    if (this.#connections.size === 0) this.#owner.retired()
  }

  get connections(): number {
    return this.#connections.size
  }

  kill(): number {
    const count = this.#connections.size
    for (const connection of this.#connections) connection.kill('KD', 'drain time over')
    return count
  }

  stats(): ListenerStats {
    const counters = { ...this.#counters, active: this.#connections.size }
    for (const connection of this.#connections) {
      counters.bytesToBackend += connection.bytesToBackend
      counters.bytesToClient += connection.bytesToClient
    }
    const { id, name, protocol } = this.#spec
    return {
      id,
      name,
      protocol,
      counters,
      binds: this.#binds.states(),
      endpoints: [...this.#backends.values()],
      lastError: this.#lastError,
      wanted: this.#wanted,
    }
  }

  async #open(bind: Bind): Promise<Listening> {
    const server = this.#env.handover.take(bind) ?? (await this.#openServer(bind))
    return this.#serve(server, bind)
  }

  #openServer({ address, port }: Bind): Promise<Server> {
    return new Promise((resolve, reject) => {
      const server = createServer({
        allowHalfOpen: true,
        noDelay: true,
        highWaterMark: this.#env.limits.bufferBytes,
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
    server.on('connection', socket => this.#accept(socket))
    server.on('error', error => observer.fault(this.#spec.name, error))
    const gate = acceptGate(server)
    if (gate !== undefined) {
      gates.add(gate)
      if (budget.exhausted) gate.stop()
    }
    const close = (): void => {
      if (gate !== undefined) gates.delete(gate)
      server.removeAllListeners('connection').removeAllListeners('error')
      handover.offer(bind, server)
    }
    return { close }
  }

  #accept(client: Socket): void {
    this.#counters.accepted += 1
    if (!this.#env.budget.take(fdsPerConnection)) {
      countFailure(this.#counters, 'RC')
      return reset(client)
    }
    const connection = new TcpConnection(this.#context, client)
    this.#connections.add(connection)
    connection.start()
  }

  #ended(connection: TcpConnection): void {
    this.#env.budget.release(fdsPerConnection)
    this.#connections.delete(connection)
    if (connection.failure !== '') this.#lastError = connection.failure
    this.#owner.connectionEnded()
    if (!this.#wanted && this.#connections.size === 0) this.#owner.retired()
  }

  #bindChanged(state: BindState): void {
    if (state.state === 'failed') {
      const { address, port } = state.bind
      this.#lastError = `listen on ${address} port ${port}: ${state.error}`
    }
    this.#env.observer.bindChanged(this.#spec.name, state)
  }
}
