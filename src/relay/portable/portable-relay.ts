import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../../util/clock.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import {
  EndedConnections,
  type EndedPage,
  type EndedQuery,
} from '../ended-connections.ts'
import { FdBudget } from '../fd-budget.ts'
import { FlowLimits } from '../flow-limits.ts'
import { changesToApply } from '../listener-changes.ts'
import { NodeClientSet } from '../node-clients.ts'
import { openFronts } from '../open-fronts.ts'
import {
  type QueryHandlers,
  type QueryResult,
  handleQuery,
  type QueryParams,
  notListening,
  type QueryName,
} from '../queries.ts'
import {
  bindKey,
  type Bind,
  type DrainResult,
  type ListenerStats,
  type NodeClients,
  type Relay,
  type RelayLimits,
  type RelayListener,
  type RelayObserver,
  type RelayStats,
} from '../relay.ts'
import { Dialling } from './dialling.ts'
import { IdleWatch } from './idle-watch.ts'
import { LifetimeWatch } from './lifetime-watch.ts'
import { Handover } from './handover.ts'
import { OpenConnections } from './open-connections.ts'
import { OwnBinds, ownBindsOf } from '../own-binds.ts'
import type { PortListener, RelayEnv } from './port-listener.ts'
import { TcpListener } from './tcp-listener.ts'
import { UdpListener } from './udp-listener.ts'
import { Undelivered } from './undelivered.ts'

export interface PortableRelayDeps {
  readonly clock: Clock
  /** 0 <= n < 1. */
  readonly random: () => number
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of the process. */
  readonly openFileLimit: number
}

const sweepMs = 10_000
/** Milliseconds that sockets may take to close. */
const closingMs = 1000
/** Clients of one listener; the kernel has a limit of its own, which is lower by default. */
const mostQueued = 4096

/** The relay on node:net and node:dgram: runs wherever Node runs. */
export class PortableRelay implements Relay {
  readonly #env: RelayEnv
  readonly #listeners = new Map<string, PortListener>()
  /** What each listener was last given; only of those that are wanted. */
  readonly #specs = new Map<string, RelayListener>()
  readonly #nodeClients = new NodeClientSet()
  readonly #ownBinds = new OwnBinds(this.#nodeClients)
  /** Those that remember clients. */
  readonly #sticky = new Set<PortListener>()
  /** What the last `apply` was given, undefined when it did not come to its end. */
  #applied: readonly RelayListener[] | undefined = []
  #sweptAt = -Infinity
  /** TCP connections that are open. */
  #connections = 0
  /** Of all time. */
  #begun = 0
  #draining = false
  readonly #drains: (() => void)[] = []
  readonly #queryHandlers: QueryHandlers = {
    connections: query => this.#env.open.page(query),
    'close-connections': ids => this.#env.open.close(ids),
    ended: query => this.#ended(query),
    explain: query => this.#listeners.get(query.listener)?.explain(query) ?? notListening,
  }

  constructor(deps: PortableRelayDeps) {
    const { clock, random, limits, observer, openFileLimit } = deps
    const gates: RelayEnv['gates'] = new Set()
    const budget = new FdBudget(openFileLimit, limits.reservedFds, exhausted => {
      for (const gate of gates) {
        if (exhausted) gate.stop()
        else gate.start()
      }
      observer.acceptPaused(exhausted, budget.used, budget.limit)
    })
    const undelivered = new Undelivered(clock)
    this.#env = {
      clock,
      random,
      limits,
      observer,
      budget,
      gates,
      open: new OpenConnections(clock),
      endedConnections: new EndedConnections(clock, 0),
      handover: new Handover(),
      undelivered,
      idleWatch: new IdleWatch(clock, undelivered, limits.halfCloseTimeout),
      lifetimes: new LifetimeWatch(clock, random),
      dialling: new Dialling(clock, random, limits, budget),
      udpFlows: new FlowLimits(clock, limits, budget.spendable),
      nodeClients: this.#nodeClients,
      isOwn: (address, port) => this.#ownBinds.has(address, port),
    }
  }

  async apply(listeners: readonly RelayListener[]): Promise<void> {
    if (this.#draining) return
    const { gone, changed } = changesToApply(this.#applied, this.#specs, listeners)
    this.#applied = undefined
    const old = [...gone, ...changed].flatMap(({ id }) => this.#specs.get(id) ?? [])
    const wanted = new Set<string>()
    await this.#forEach(changed, spec => {
      this.#ownBinds.add(ownBindsOf(spec))
      for (const bind of tcpBinds(spec)) wanted.add(bindKey(bind))
    })
    await this.#forEach(old, spec => this.#ownBinds.remove(ownBindsOf(spec)))
    this.#env.handover.begin(wanted)
    // Every port that is let go must be before others may ask for it.
    await this.#forEach(gone, ({ id }) => this.#retire(id))
    await this.#forEach(changed, spec => this.#update(spec))
    await this.#forEach(changed, ({ id }) => this.#listeners.get(id)?.listen())
    this.#env.handover.end()
    await this.#sweep()
    this.#applied = listeners
  }

  setNodeClients(clients: NodeClients): void {
    this.#nodeClients.set(clients)
  }

  stats(): RelayStats {
    const { budget } = this.#env
    return {
      listeners: statsOf(this.#listeners),
      fds: { used: budget.used, limit: budget.limit },
      acceptPaused: budget.exhausted,
    }
  }

  async query<Q extends QueryName>(
    name: Q,
    params: QueryParams<Q>,
  ): Promise<QueryResult<Q>> {
    return handleQuery(this.#queryHandlers, name, params)
  }

  async drain(ms: number): Promise<DrainResult> {
    this.#draining = true
    await this.#acceptQueued()
    await forEachYielding(this.#listeners.values(), one => one.stopAccepting())
    await this.#drained(ms)
    let reset = 0
    for (const listener of this.#listeners.values()) reset += listener.kill()
    // Sockets are closed a turn later, and then their records are written.
    await this.#drained(closingMs)
    return { reset }
  }

  /** Node accepts one a listener and turn, and resets the others when the server is closed. */
  async #acceptQueued(): Promise<void> {
    let before = -1
    for (let left = mostQueued; left > 0 && before !== this.#begun; left -= 1) {
      before = this.#begun
      await setImmediate()
      await setImmediate()
    }
  }

  /** Resolves when there is no connection any more, at the latest after `ms`. */
  #drained(ms: number): Promise<void> {
    const { clock } = this.#env
    return new Promise(resolve => {
      const timer = clock.setTimeout(resolve, ms)
      this.#drains.push(() => {
        clock.clearTimeout(timer)
        resolve()
      })
      this.#checkDrained()
    })
  }

  /** A socket that is closed does not know its peer any more: so all are asked before. */
  #ended(query: EndedQuery): EndedPage {
    const { open, endedConnections } = this.#env
    if (!endedConnections.isWatched) open.nameAll()
    return endedConnections.poll(query)
  }

  /** What affinity has expired is forgotten now and then, not at each of 100 changes a second. */
  async #sweep(): Promise<void> {
    const now = this.#env.clock.now()
    if (now - this.#sweptAt < sweepMs) return
    this.#sweptAt = now
    await this.#forEach(this.#sticky, listener => listener.sweep())
  }

  /** A drain may begin between two turns; then nothing may be opened any more. */
  #forEach<T>(
    items: Iterable<T>,
    each: (item: T) => void | Promise<void>,
  ): Promise<void> {
    return forEachYielding(items, item => (this.#draining ? undefined : each(item)))
  }

  #retire(id: string): void {
    const listener = this.#listeners.get(id)
    this.#specs.delete(id)
    if (listener === undefined) return
    this.#sticky.delete(listener)
    listener.retire()
  }

  #update(spec: RelayListener): void | Promise<void> {
    const listener = this.#listeners.get(spec.id) ?? this.#make(spec)
    this.#specs.set(spec.id, spec)
    if (spec.affinityMs > 0) this.#sticky.add(listener)
    else this.#sticky.delete(listener)
    return listener.update(spec)
  }

  #make(spec: RelayListener): PortListener {
    const Listener = spec.protocol === 'TCP' ? TcpListener : UdpListener
    const listener = new Listener(this.#env, spec, {
      retired: () => this.#listeners.delete(spec.id),
      connectionBegun: () => {
        this.#begun += 1
        this.#connections += 1
      },
      connectionEnded: () => {
        this.#connections -= 1
        this.#checkDrained()
      },
    })
    this.#listeners.set(spec.id, listener)
    return listener
  }

  #checkDrained(): void {
    if (this.#connections > 0) return
    for (const drained of this.#drains.splice(0)) drained()
  }
}

const statsOf = (
  listeners: ReadonlyMap<string, PortListener>,
): Iterable<ListenerStats> => ({
  *[Symbol.iterator]() {
    for (const listener of listeners.values()) yield listener.stats()
  },
})

const tcpBinds = (spec: RelayListener): readonly Bind[] =>
  spec.protocol === 'TCP' ? openFronts(spec).open : []
