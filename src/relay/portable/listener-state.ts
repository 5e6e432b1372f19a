import { Balancer } from '../../balance/balancer.ts'
import { joinHostPort } from '../../util/ip.ts'
import { type Backend, nextBackends, stayingBackends } from '../backend.ts'
import { newCounters } from '../counters.ts'
import { Fronts } from '../fronts.ts'
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
  #backends = new Map<string, Backend>()
  /** Of `RelayListener.staying` those that were listed before. */
  #staying = new Map<string, Backend>()
  readonly #env: RelayEnv

  constructor(
    env: RelayEnv,
    spec: RelayListener,
    open: (bind: Bind) => Promise<Listening>,
  ) {
    this.#env = env
    this.#spec = spec
    this.balancer = new Balancer(env.clock, env.random)
    this.fronts = new Fronts(env.random, env.isFromNode)
    this.binds = new BindSet(env.budget, open, state => this.#bindChanged(state))
  }

  get spec(): RelayListener {
    return this.#spec
  }

  /** The living object of an endpoint, undefined when it is not listed. */
  backend(key: string): Backend | undefined {
    return this.#backends.get(key)
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: Backend): boolean {
    const { key } = backend
    return (this.#backends.get(key) ?? this.#staying.get(key)) === backend
  }

  /** Takes over what is wanted now, and lets go of addresses that are not. */
  take(spec: RelayListener): void {
    this.#spec = spec
    this.wanted = true
    const known = new Map([...this.#staying, ...this.#backends])
    this.#backends = nextBackends(known, spec.endpoints)
    this.#staying = stayingBackends(known, spec)
    this.balancer.setEndpoints([...this.#backends.values()])
    this.balancer.setAffinity(spec.affinityMs)
    this.fronts.take(spec.fronts, this.#backends)
    this.binds.want(this.fronts.open, this.fronts.closed)
  }

  stopListening(reason: string): void {
    const binds = this.#spec.fronts.flatMap(front => front.binds)
    this.binds.want(
      [],
      binds.map(bind => ({ bind, state: 'closed', reason })),
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
    const backends = [...this.#backends.values()]
    for (const backend of backends) {
      backend.resting = this.balancer.isResting(backend.key)
    }
    return backends
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
