import { Balancer } from '../../../balance/balancer.ts'
import { stayingBackends } from '../../backend.ts'
import { Fronts } from '../../fronts.ts'
import type { RelayListener } from '../../relay.ts'
import type { ListenerOrder } from '../orders.ts'
import { CounterWriter } from '../shared/listener-counters.ts'
import { WorkerBackend } from './worker-backend.ts'
import type { WorkerEnv } from './worker-env.ts'

/** What TCP and UDP listeners of a worker have in common: wants, balancer and figures. */
export class ListenerState {
  readonly slot: number
  readonly counters: CounterWriter
  readonly balancer: Balancer<WorkerBackend>
  readonly fronts: Fronts<WorkerBackend>
  /** False once it is to go. */
  wanted = true
  readonly #env: WorkerEnv
  #spec: RelayListener
  #backends: ReadonlyMap<string, WorkerBackend> = new Map()
  /** Of `RelayListener.staying` those that were listed before. */
  #staying: ReadonlyMap<string, WorkerBackend> = new Map()

  constructor(env: WorkerEnv, { slot, spec }: ListenerOrder) {
    this.#env = env
    this.#spec = spec
    this.slot = slot
    this.counters = new CounterWriter(env.listenerPages, slot)
    this.balancer = new Balancer(env.loop.clock, env.random)
    this.fronts = new Fronts(
      env.random,
      // Whoever lets clients in has made sure that it is known.
      address => env.nodeQuestions.isFromNode(address) ?? false,
    )
  }

  get spec(): RelayListener {
    return this.#spec
  }

  /** The living object of an endpoint, undefined when it is not listed. */
  backend(key: string): WorkerBackend | undefined {
    return this.#backends.get(key)
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: WorkerBackend): boolean {
    const { key } = backend
    return (this.#backends.get(key) ?? this.#staying.get(key)) === backend
  }

  take(order: ListenerOrder): void {
    this.#spec = order.spec
    this.wanted = true
    const before = this.#backends
    const known = new Map([...this.#staying, ...before])
    this.#backends = this.#nextBackends(order)
    this.#staying = stayingBackends(known, order.spec)
    for (const [key, backend] of before) {
      if (this.#backends.get(key) !== backend) backend.detach()
    }
    this.balancer.setEndpoints([...this.#backends.values()])
    this.balancer.setAffinity(order.spec.affinityMs)
    this.fronts.take(order.spec.fronts, this.#backends)
  }

  /** An endpoint refused or was silent: for `restMs` others are preferred. */
  failed(backend: WorkerBackend, restMs: number): void {
    backend.failures += 1
    backend.restingUntil = this.#env.loop.now + restMs
    this.balancer.failed(backend, restMs)
  }

  /** A connection or flow now goes to `backend`. */
  succeeded(client: string, backend: WorkerBackend): void {
    if (backend.failures > 0) backend.restingUntil = 0
    this.balancer.succeeded(client, backend)
  }

  /** Nothing is left of it. */
  end(): void {
    for (const backend of this.#backends.values()) backend.detach()
    this.#backends = new Map()
  }

  #nextBackends({ spec, endpointSlots }: ListenerOrder): Map<string, WorkerBackend> {
    const after = new Map<string, WorkerBackend>()
    for (const [i, endpoint] of spec.endpoints.entries()) {
      const { key } = endpoint
      if (after.has(key)) continue
      const slot = endpointSlots[i] ?? 0
      const back = this.#staying.get(key)
      back?.attach(this.#env.endpointPages, slot)
      const known = this.#backends.get(key) ?? back
      after.set(key, known ?? new WorkerBackend(endpoint, this.#env.endpointPages, slot))
    }
    return after
  }
}
