import { canonicalIp } from '../../../util/ip.ts'
import { ListenerFlows } from '../../flow-limits.ts'
import type { Choice } from '../../front.ts'
import { bindKey, type Bind } from '../../relay.ts'
import { isFar } from '../rings.ts'
import type { ListenerOrder } from '../orders.ts'
import { ListenerState } from '../worker/listener-state.ts'
import type { WorkerBackend, WorkerEnv } from '../worker/worker-backend.ts'
import type { Identity } from './flow-table.ts'
import type { UdpShared, WorkerFlow } from './udp-shared.ts'

/** What flows and listening sockets know of their ServicePort. */
export class UdpService extends ListenerState {
  readonly shared: UdpShared
  readonly random: () => number
  /** Goes up when endpoints or clients' rights change. */
  version = 0
  /** So many datagrams of a client go to one endpoint before the next one's turn. */
  spread = Infinity
  /** Flows that `isFar` holds for. */
  far = 0
  /** Whether it takes new flows. */
  accepting = true
  readonly flows: ListenerFlows<WorkerFlow>
  readonly #env: WorkerEnv

  constructor(env: WorkerEnv, order: ListenerOrder, shared: UdpShared) {
    super(env, order)
    this.#env = env
    this.shared = shared
    this.random = env.random
    this.flows = new ListenerFlows(shared.limits, env.limits.udpMaxFlowsPerPort)
    this.take(order)
  }

  override take(order: ListenerOrder): void {
    super.take(order)
    const { idleMs, spread = Infinity } = order.spec.udp ?? {}
    this.flows.idleMs = idleMs
    this.spread = spread
    this.version += 1
  }

  /** What a client that wrote to `bind` may choose from; undefined: nothing. */
  admit(
    bind: Bind,
    client: string,
    identity: Identity,
  ): Choice<WorkerBackend> | undefined {
    const front = this.fronts.at(bindKey(bind))
    if (front?.asksForClient !== true) return front?.admit('')
    return front.admit(client, dialled(bind, identity))
  }

  /**
   * A datagram "from" a listener of ours is made up: answering it would go round for ever
   * (CVE-2024-2169). Port 0 can't be answered (RFC 768).
   */
  isLoop(address: string, port: number): boolean {
    return port === 0 || this.#env.isOwn(address, port)
  }

  /**
   * A descriptor for one more flow, of the budget or of a flow that gives way. Given back it
   * might become another worker's, and this flow would not get it.
   */
  takeDescriptor(): boolean {
    const inTheWay = this.flows.inTheWay
    if (inTheWay === undefined && this.#env.fds.take(1)) return true
    const flow = inTheWay ?? this.shared.limits.mostDispensable
    flow?.giveWay()
    return flow !== undefined
  }

  begun(flow: WorkerFlow): void {
    this.counters.add('accepted', 1)
    this.adopted(flow)
  }

  /** The same for one that another process has counted already. */
  adopted(flow: WorkerFlow, idleMs = 0): void {
    this.counters.add('active', 1)
    this.flows.add(flow, idleMs)
    if (isFar(flow.ttl)) this.far += 1
  }

  /** `givesWay`: its descriptor stays taken, for another flow. */
  ended(flow: WorkerFlow, givesWay: boolean): void {
    this.flows.remove(flow)
    if (isFar(flow.ttl)) this.far -= 1
    this.counters.add('active', -1)
    if (!givesWay) this.#env.fds.release(1)
  }

  fault(error: unknown): void {
    this.#env.observer.fault(this.name, error)
  }
}

/** The address that a client wrote to. */
const dialled = ({ address }: Bind, { destination }: Identity): string =>
  destination === undefined ? address : addressText(destination)

/** The words of an IPv4 or IPv6 address, as packets have them, as text. */
const addressText = (words: Int32Array): string => {
  const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength)
  if (bytes.length === 4) return bytes.join('.')
  const groups = Array.from({ length: 8 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  )
  const text = groups.join(':')
  return canonicalIp(text) ?? text
}
