import { Balancer } from '../../../balance/balancer.ts'
import { stayingBackends } from '../../backend.ts'
import { Fronts } from '../../fronts.ts'
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
  #name: string
  /** Of `RelayListener.staying` those that were listed before. */
  #staying: ReadonlyMap<string, WorkerBackend> = new Map()

  constructor(env: WorkerEnv, { slot, spec }: ListenerOrder) {
    this.#env = env
    this.#name = spec.name
    this.slot = slot
    this.counters = new CounterWriter(env.listenerPages, slot)
    this.balancer = new Balancer(env.loop.clock, env.random)
    this.fronts = new Fronts(env.random, env.nodeClients)
  }

  get name(): string {
    return this.#name
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: WorkerBackend): boolean {
    return this.#known(backend.key) === backend
  }

  take(order: ListenerOrder): void {
    const { spec } = order
    this.#name = spec.name
    this.wanted = true
    const before = this.balancer.endpoints
    const after = this.#nextBackends(order)
    this.#staying = stayingBackends({ get: key => this.#known(key) }, spec)
    this.balancer.setEndpoints(after)
    for (const backend of before) {
      if (this.balancer.get(backend.key) !== backend) backend.detach()
    }
    this.balancer.setAffinity(spec.affinityMs)
    this.fronts.take(spec.fronts, this.balancer)
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
    for (const backend of this.balancer.endpoints) backend.detach()
    this.balancer.setEndpoints([])
  }

  #known(key: string): WorkerBackend | undefined {
    return this.balancer.get(key) ?? this.#staying.get(key)
  }

  #nextBackends({ spec, endpointSlots }: ListenerOrder): readonly WorkerBackend[] {
    const pages = this.#env.endpointPages
    return spec.endpoints.map((endpoint, i) => {
      const slot = endpointSlots[i] ?? 0
      this.#staying.get(endpoint.key)?.attach(pages, slot)
      return this.#known(endpoint.key) ?? new WorkerBackend(endpoint, pages, slot)
    })
  }
}
