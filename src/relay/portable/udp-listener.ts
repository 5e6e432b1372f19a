import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { forEachYielding } from '../../util/list-diff.ts'
import type { Counters, DropReason } from '../counters.ts'
import type { Explanation, ExplainQuery } from '../explanation.ts'
import type { Choice, Backend } from '../front.ts'
import { bindKey, type Bind, type ListenerStats, type RelayListener } from '../relay.ts'
import type { Listening } from '../bind-set.ts'
import { ListenerFlows } from '../flow-limits.ts'
import { cooldownMs } from '../listener-endpoints.ts'
import { ListenerState } from './listener-state.ts'
import type { ListenerOwner, PortListener, RelayEnv } from './port-listener.ts'
import { type FlowOwner, literalLookup, UdpFlow } from './udp-flow.ts'

/** Asked for; the kernel gives at most net.core.rmem_max. */
const receiveBufferBytes = 4 << 20

export class UdpListener implements PortListener, FlowOwner {
  #accepting = true
  readonly #env: RelayEnv
  readonly #owner: ListenerOwner
  readonly #state: ListenerState
  readonly #flows: ListenerFlows<UdpFlow>
  readonly #sockets = new Map<Socket, ListeningSocket>()

  constructor(env: RelayEnv, spec: RelayListener, owner: ListenerOwner) {
    this.#env = env
    this.#owner = owner
    this.#state = new ListenerState(env, spec, bind => this.#open(bind))
    this.#flows = new ListenerFlows(env.udpFlows, env.limits.udpMaxFlowsPerPort)
    this.#flows.idleMs = spec.udp?.idleMs
  }

  get counters(): Counters {
    return this.#state.counters
  }

  /** In slices: to move a flow costs a socket, and there may be thousands. */
  async update(spec: RelayListener): Promise<void> {
    this.#state.take(spec)
    this.#flows.idleMs = spec.udp?.idleMs
    const open = [...this.#sockets.values()].flatMap(listening =>
      Array.from(listening.flows.values(), flow => ({ flow, listening })),
    )
    if (open.length === 0) return
    await forEachYielding(open, ({ flow, listening }) =>
      this.#reconsider(flow, listening),
    )
  }

  sweep(): void {
    this.#state.balancer.sweep()
  }

  listen(): Promise<void> {
    return this.#state.binds.listen()
  }

  stopAccepting(): void {
    this.#accepting = false
  }

  retire(): void {
    this.#state.retire()
    this.#owner.retired()
  }

  kill(): number {
    this.retire()
    return 0
  }

  explain(query: ExplainQuery): Explanation {
    return this.#state.explain(query)
  }

  stats(): ListenerStats {
    return this.#state.stats({ ...this.counters.totals(), active: this.#flows.size })
  }

  pick({ client, choice }: UdpFlow, tried: ReadonlySet<string>): Backend | undefined {
    return this.#state.balancer.pick(client, tried, choice.among)
  }

  chose(client: string, backend: Backend): void {
    this.#state.connected(client, backend)
  }

  failed(backend: Backend): void {
    this.#state.failed(backend, cooldownMs.refused, 'refused, or out of reach')
  }

  replied(backend: Backend, client: string): void {
    this.#state.answered(backend, client)
  }

  notReplied(backend: Backend, client: string, sentAt: number): void {
    this.#state.unanswered(backend, client, sentAt)
  }

  allFailed(): void {
    this.#state.allFailed()
  }

  touched(flow: UdpFlow): void {
    this.#flows.touched(flow)
  }

  answered(flow: UdpFlow): void {
    this.#flows.answered(flow)
  }

  closed(flow: UdpFlow): void {
    const { flows, turns } = this.#sockets.get(flow.front) ?? {}
    if (flows?.get(flow.key) !== flow) return
    flows.delete(flow.key)
    turns?.delete(flow.key.split(' ', 2).join(' '))
    this.#flows.remove(flow)
    this.#env.budget.release(1)
  }

  /** Frees a descriptor for the next flow: the client will send again. */
  starved(): void {
    this.#env.udpFlows.mostDispensable?.close()
  }

  #open(bind: Bind): Promise<Listening> {
    return new Promise((resolve, reject) => {
      const type = bind.address.includes(':') ? 'udp6' : 'udp4'
      const socket = createSocket({
        type,
        ipv6Only: type === 'udp6',
        recvBufferSize: receiveBufferBytes,
        lookup: literalLookup,
      })
      const failed = (error: Error): void => {
        socket.close()
        reject(error)
      }
      socket.once('error', failed)
      socket.bind({ address: bind.address, port: bind.port, exclusive: true }, () => {
        socket.removeListener('error', failed)
        resolve(this.#serve(socket, bind))
      })
    })
  }

  #serve(socket: Socket, bind: Bind): Listening {
    const flows = new Map<string, UdpFlow>()
    const turns: ListeningSocket['turns'] = new Map()
    const listening = { bind: bindKey(bind), address: bind.address, flows, turns }
    this.#sockets.set(socket, listening)
    socket.on('error', error => this.#env.observer.fault(this.#state.spec.name, error))
    socket.on('message', (message, from) =>
      this.#receive(socket, listening, message, from),
    )
    const close = (): void => {
      for (const flow of flows.values()) flow.close()
      this.#sockets.delete(socket)
      socket.close()
    }
    return { close }
  }

  #receive(
    front: Socket,
    listening: ListeningSocket,
    message: Buffer,
    from: RemoteInfo,
  ): void {
    const { flows } = listening
    const client = `${from.address} ${from.port}`
    const turn = this.#turn(listening, client, from.address)
    const key = turn === undefined ? client : `${client} ${turn.key}`
    const flow = flows.get(key) ?? this.#begin(front, listening, key, from, turn)
    if (flow === undefined) return void listening.turns.delete(client)
    // It was refused there, or is to try again.
    if (turn !== undefined && flow.backend !== turn) flow.move(turn)
    flow.send(message)
  }

  /** With `udp.spread` a client has a flow for each endpoint: whose turn it is. */
  #turn(
    listening: ListeningSocket,
    client: string,
    address: string,
  ): Backend | undefined {
    const { spread } = this.#state.spec.udp ?? {}
    if (spread === undefined) return undefined
    const { turns } = listening
    const { backend, left } = turns.get(client) ?? { backend: undefined, left: 0 }
    if (left > 0 && backend !== undefined) {
      turns.set(client, { backend, left: left - 1 })
      return backend
    }
    const choice = this.#admit(listening, address)
    const next = choice && this.#state.balancer.pick(address, undefined, choice.among)
    if (next !== undefined) turns.set(client, { backend: next, left: spread - 1 })
    return next
  }

  #begin(
    front: Socket,
    listening: ListeningSocket,
    key: string,
    from: RemoteInfo,
    first?: Backend,
  ): UdpFlow | undefined {
    if (!this.#accepting) return this.#drop('draining')
    // Port 0 can't be answered (RFC 768), and a datagram "from" a listener of
    // ours is made up: answering it would go round for ever (CVE-2024-2169).
    if (from.port === 0 || this.#env.isOwn(from.address, from.port)) {
      return this.#drop('loop')
    }
    const choice = this.#admit(listening, from.address)
    if (choice === undefined) return this.#drop('not-allowed')
    if (!this.#takeDescriptor()) return this.#drop('no-fd')
    const flow = new UdpFlow(this, key, front, from.address, from.port, choice)
    listening.flows.set(key, flow)
    this.counters.add('accepted', 1)
    this.#flows.add(flow)
    const result = flow.move(first)
    return result === 'moved' ? flow : this.#drop(result)
  }

  /** For one more flow: one of the budget, or of a flow that ends for it. */
  #takeDescriptor(): boolean {
    const { udpFlows, budget } = this.#env
    this.#flows.inTheWay?.close()
    if (budget.take(1)) return true
    udpFlows.mostDispensable?.close()
    return budget.take(1)
  }

  #drop(reason: DropReason): undefined {
    this.counters.countDrop(reason)
  }

  #admit({ bind, address }: ListeningSocket, client: string): Choice | undefined {
    return this.#state.fronts.at(bind)?.admit(client, address)
  }

  /** A flow goes by the newest state: its client's rights and its endpoint may be gone. */
  #reconsider(flow: UdpFlow, listening: ListeningSocket): void {
    if (listening.flows.get(flow.key) !== flow) return
    const choice = this.#admit(listening, flow.client)
    if (choice === undefined) return flow.close()
    flow.choice = choice
    // Also where a new flow would not come: neither a policy nor an endpoint's end that
    // has been asked for moves one that is served, as kube-proxy has it.
    if (flow.backend === undefined || !this.#state.mayKeep(flow.backend)) flow.move()
  }
}

/** One listening socket. */
interface ListeningSocket {
  /** `bindKey` of its address. */
  readonly bind: string
  readonly address: string
  /** By the client's `address port`, with the endpoint behind it where there are `turns`. */
  readonly flows: Map<string, UdpFlow>
  /** By the client's `address port`. */
  readonly turns: Map<string, { readonly backend: Backend; readonly left: number }>
}
