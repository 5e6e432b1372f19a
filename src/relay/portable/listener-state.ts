import { AccessLines } from '../access-log/access-lines.ts'
import type { OpenNow, Waited } from '../access-log/access-entry.ts'
import { OwnCell } from '../../balance/cell.ts'
import { noDoubts } from '../../balance/doubts.ts'
import { noReplies } from '../../balance/replies.ts'
import { noCooldown, noRecovery } from '../../balance/cooldown.ts'
import type { Backend } from '../front.ts'
import { CountedEndpoints } from '../counted-endpoints.ts'
import { ConnectionLimiter, limiterFor, newLimiterMemory } from '../connection-limiter.ts'
import type { Cause, ConnectionRecord } from '../cause.ts'
import { Counters, type ListenerCounters } from '../counters.ts'
import { ownQueues } from '../endpoint-capacity.ts'
import { explainPick, closedReason } from '../explain-pick.ts'
import type { Explanation, ExplainQuery } from '../explanation.ts'
import { countsUnserved, ListenerEndpoints } from '../listener-endpoints.ts'
import { allClosed, holdsClients, openFronts } from '../open-fronts.ts'
import type {
  Bind,
  BindState,
  ListenerStats,
  RelayEndpoint,
  RelayListener,
} from '../relay.ts'
import { BindSet, lastErrorAfter, type Listening } from '../bind-set.ts'
import { newSharedPlaces } from '../shared-places.ts'
import type { RelayEnv } from './port-listener.ts'

/** What there is to tell of a connection that has ended. */
export interface EndReport {
  readonly record: ConnectionRecord
  readonly waited: Waited
  readonly open: OpenNow
}

/** What TCP and UDP listeners have in common: endpoints, listening sockets and figures. */
export class ListenerState extends ListenerEndpoints<Backend> {
  readonly counters = new Counters()
  readonly binds: BindSet
  /** False once `apply` left it out. */
  wanted = true
  lastError = ''
  /** Connections to endpoints since one of them has answered, or ended its side, last. */
  sinceAnswer = 0
  /** Open connections of clients that have ended their side without an answer. */
  leftUnanswered = 0
  #spec: RelayListener
  readonly #counted = new CountedEndpoints()
  /** Kept while there are no limits: connections from before count in it. */
  #limiter: ConnectionLimiter | undefined
  #accessLines: AccessLines | undefined
  readonly #env: RelayEnv

  constructor(
    env: RelayEnv,
    spec: RelayListener,
    open: (bind: Bind) => Promise<Listening>,
  ) {
    super(env.clock, env.random, env.nodeClients, env.limits, ownQueues)
    this.#env = env
    this.#spec = spec
    this.binds = new BindSet(env.budget, open, state => this.#bindChanged(state))
  }

  get spec(): RelayListener {
    return this.#spec
  }

  /** Takes over what is wanted now, and lets go of addresses that are not. */
  take(spec: RelayListener): void {
    this.#spec = spec
    this.wanted = true
    this.#counted.take(spec)
    const backendOf = (endpoint: RelayEndpoint, _index: number, known?: Backend) => {
      const backend = known ?? newBackend(endpoint)
      const counts = spec.retry?.expectsReplies === true
      backend.replies = counts ? (backend.replies ?? new OwnCell(noReplies)) : undefined
      const doubts = backend.doubts ?? new OwnCell(noDoubts)
      backend.doubts = countsUnserved(spec) ? doubts : undefined
      const slowly = (spec.balance?.slowStartMs ?? 0) > 0
      backend.recovery = slowly
        ? (backend.recovery ?? new OwnCell(noRecovery))
        : undefined
      return backend
    }
    this.takeEndpoints(spec, backendOf, this.#counted.memory)
    if (spec.limits) this.#limiter ??= new ConnectionLimiter(newLimiterMemory())
    this.limiter = limiterFor(this.#limiter, spec)
    const { observer } = this.#env
    this.#accessLines = AccessLines.of(spec, this.counters, observer, this.#accessLines)
    if (holdsClients(spec)) this.places ??= newSharedPlaces()
    const { open, closed } = openFronts(spec)
    this.binds.want(open, closed)
  }

  /** Whether clients are to be known by name also where their connections end in order. */
  get namesAll(): boolean {
    const { observer, endedConnections } = this.#env
    const isLogged = this.#accessLines !== undefined || observer.wants('--')
    return isLogged || endedConnections.isWatched
  }

  /**
   * A TCP connection has ended, which is counted no more, or was turned away: tells those who want
   * to know. `client`: its IP address; `report` is called where somebody is.
   */
  ended(cause: Cause, client: () => string, report: () => EndReport): void {
    const { observer, endedConnections } = this.#env
    const isLogged = observer.wants(cause)
    const subscribers = endedConnections.subscribers(this.#spec.name, cause, client)
    if (!isLogged && subscribers === undefined && this.#accessLines === undefined) return
    const { record, waited, open } = report()
    if (isLogged) observer.connectionClosed(record)
    for (const subscriber of subscribers ?? []) subscriber.add(record)
    this.#accessLines?.add(record, waited, open)
  }

  stopListening(reason: string): void {
    this.binds.want([], allClosed(this.#spec, reason))
  }

  retire(): void {
    this.wanted = false
    this.binds.want([])
  }

  protected override reportAllFailed(): void {
    this.#env.observer.allFailed?.(this.#spec.name)
  }

  stats(counters: ListenerCounters): ListenerStats {
    const { id, name, protocol } = this.#spec
    return {
      id,
      name,
      protocol,
      counters: {
        ...counters,
        held: this.places?.taken ?? 0,
        queued: this.#counted.queued,
      },
      binds: this.binds.states(),
      endpoints: this.#endpoints(),
      lastError: this.lastError,
      wanted: this.wanted,
    }
  }

  explain(query: ExplainQuery): Explanation {
    const closed = closedReason(this.binds.states(), query.bind)
    return { ...explainPick(this, ownQueues.worker, query), closed }
  }

  #endpoints(): readonly Backend[] {
    const keys = new Set(this.#spec.endpoints.map(({ key }) => key))
    const backends = [...keys].flatMap(key => this.listedAt(key) ?? [])
    for (const backend of backends) {
      backend.coolingDown = this.balancer.isCoolingDown(backend)
    }
    return backends
  }

  #bindChanged(state: BindState): void {
    this.lastError = lastErrorAfter(this.lastError, state)
    this.#env.observer.bindChanged(this.#spec.name, state)
  }
}

const newBackend = ({ key, address, port, tier, weight }: RelayEndpoint): Backend => ({
  key,
  address,
  port,
  tier,
  weight,
  active: 0,
  failures: 0,
  lastFailure: undefined,
  coolingDown: false,
  cooldown: new OwnCell(noCooldown),
  replies: undefined,
  get connections() {
    return this.places?.taken ?? this.active
  },
})
