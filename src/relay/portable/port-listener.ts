import type { Clock } from '../../util/clock.ts'
import type { EndedConnections } from '../ended-connections.ts'
import type { FdBudget } from '../fd-budget.ts'
import type { Explanation, ExplainQuery } from '../explanation.ts'
import type { FlowLimits } from '../flow-limits.ts'
import type { NodeClientSet } from '../node-clients.ts'
import type {
  ListenerStats,
  RelayLimits,
  RelayListener,
  RelayObserver,
} from '../relay.ts'
import type { AcceptGate } from './accept-gate.ts'
import type { Dialling } from './dialling.ts'
import type { OpenConnections } from './open-connections.ts'
import type { Handover } from './handover.ts'
import type { IdleWatch } from './idle-watch.ts'
import type { LifetimeWatch } from './lifetime-watch.ts'
import type { UdpFlow } from './udp-flow.ts'
import type { Undelivered } from './undelivered.ts'

/** What the relay shares among its listeners. */
export interface RelayEnv {
  readonly clock: Clock
  readonly random: () => number
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  readonly budget: FdBudget
  readonly undelivered: Undelivered
  readonly idleWatch: IdleWatch
  readonly lifetimes: LifetimeWatch
  readonly dialling: Dialling
  readonly open: OpenConnections
  /** For subscribers to connections that end. */
  readonly endedConnections: EndedConnections
  readonly udpFlows: FlowLimits<UdpFlow>
  readonly handover: Handover
  /** The gates of all servers, worked together when descriptors run out. */
  readonly gates: Set<AcceptGate>
  readonly nodeClients: NodeClientSet
  /** Whether a UDP listener of this relay is bound to this address and port. */
  isOwn(address: string, port: number): boolean
}

/** Who keeps the listeners. */
export interface ListenerOwner {
  /** Nothing is left of a listener that was retired. */
  retired(): void
  /** TCP connections: what a drain waits for. UDP flows end with their listener. */
  connectionBegun(): void
  connectionEnded(): void
}

/** One ServicePort's sockets, balancer and connections, TCP or UDP. */
export interface PortListener {
  /**
   * Takes over what is wanted now, and lets go of addresses that are not, at once. Resolves
   * when what is open goes by it too.
   */
  update(spec: RelayListener): void | Promise<void>
  /** Frees what has expired; to be called now and then. */
  sweep(): void
  /** Listens where it is wanted; resolves when each new address was tried once. */
  listen(): Promise<void>
  /** Takes no new connections or flows from now on. */
  stopAccepting(): void
  /** Stops listening; what is open goes on, and `retired` is called when it has ended. */
  retire(): void
  /** Ends everything now; answers how many TCP connections that reset. */
  kill(): number
  stats(): ListenerStats
  /** As of the contract. */
  explain(query: ExplainQuery): Explanation
}
