import { Balancer } from '../../balance/balancer.ts'
import { joinHostPort } from '../../util/ip.ts'
import { type Backend, nextBackends, stayingBackends } from '../backend.ts'
import { newCounters } from '../counters.ts'
import { Fronts } from '../fronts.ts'
import { closedState, openFronts } from '../open-fronts.ts'
import type {
  Bind,
  BindState,
  ListenerCounters,
  ListenerStats,
  RelayListener,
} from '../relay.ts'
import { BindSet, type Listening } from '../bind-set.ts'
import type { RelayEnv } from './port-listener.ts'

/**
 * What TCP and UDP listeners have in common: what is wanted of them, the balancer, the
 * listening sockets and the figures.
 */
export class ListenerState {
  readonly counters = newCounters()
  readonly balancer: Balancer<Backend>
  readonly fronts: Fronts
  readonly binds: BindSet
  /** False once `apply` left it out. */
  wanted = true
  lastError = ''
  #spec: RelayListener
  /** Of `RelayListener.staying` those that were listed before. */
  #staying: ReadonlyMap<string, Backend> = new Map()
  readonly #env: RelayEnv

  constructor(
    env: RelayEnv,
    spec: RelayListener,
    open: (bind: Bind) => Promise<Listening>,
  ) {
    this.#env = env
    this.#spec = spec
    this.balancer = new Balancer(env.clock, env.random)
    this.fronts = new Fronts(env.random, env.nodeClients)
    this.binds = new BindSet(env.budget, open, state => this.#bindChanged(state))
  }

  get spec(): RelayListener {
    return this.#spec
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: Backend): boolean {
    return this.#known(backend.key) === backend
  }

  /** Takes over what is wanted now, and lets go of addresses that are not. */
  take(spec: RelayListener): void {
    this.#spec = spec
    this.wanted = true
    const known = { get: (key: string) => this.#known(key) }
    const backends = nextBackends(known, spec.endpoints)
    this.#staying = stayingBackends(known, spec)
    this.balancer.setEndpoints(backends)
    this.balancer.setAffinity(spec.affinityMs)
    this.fronts.take(spec.fronts, this.balancer)
    const { open, closed } = openFronts(spec)
    this.binds.want(open, closed)
  }

  stopListening(reason: string): void {
    const binds = this.#spec.fronts.flatMap(front => front.binds)
    this.binds.want(
      [],
      binds.map(bind => closedState(bind, reason)),
    )
  }

  retire(): void {
    this.wanted = false
    this.binds.want([])
  }

  stats(counters: ListenerCounters): ListenerStats {
    const { id, name, protocol } = this.#spec
    return {
      id,
      name,
      protocol,
      counters,
      binds: this.binds.states(),
      endpoints: this.#endpoints(),
      lastError: this.lastError,
      wanted: this.wanted,
    }
  }

  #endpoints(): readonly Backend[] {
    const keys = new Set(this.#spec.endpoints.map(({ key }) => key))
    const backends = [...keys].flatMap(key => this.balancer.get(key) ?? [])
    for (const backend of backends) {
      backend.resting = this.balancer.isResting(backend.key)
    }
    return backends
  }

  #known(key: string): Backend | undefined {
    return this.balancer.get(key) ?? this.#staying.get(key)
  }

  #bindChanged(state: BindState): void {
    const where = `listen on ${joinHostPort(state.bind.address, state.bind.port)}: `
    if (state.state === 'failed') this.lastError = where + state.error
    else if (state.state === 'listening' && this.lastError.startsWith(where)) {
      this.lastError = ''
    }
    this.#env.observer.bindChanged(this.#spec.name, state)
  }
}
