import { ListenerEndpoints } from '../../listener-endpoints.ts'
import type { ListenerOrder } from '../orders.ts'
import { CounterWriter } from '../shared/listener-counters.ts'
import { WorkerBackend } from './worker-backend.ts'
import type { WorkerEnv } from './worker-env.ts'

/** What TCP and UDP listeners of a worker have in common: endpoints and figures. */
export class ListenerState extends ListenerEndpoints<WorkerBackend> {
  readonly slot: number
  readonly counters: CounterWriter
  /** False once it is to go. */
  wanted = true
  readonly #env: WorkerEnv
  #name: string

  constructor(env: WorkerEnv, { slot, spec }: ListenerOrder) {
    super(env.loop.clock, env.random, env.nodeClients, env.fds.workers)
    this.#env = env
    this.#name = spec.name
    this.slot = slot
    this.counters = new CounterWriter(env.listenerPages, slot)
  }

  get name(): string {
    return this.#name
  }

  take({ spec, endpointSlots }: ListenerOrder): void {
    const pages = this.#env.endpointPages
    this.#name = spec.name
    this.wanted = true
    const before = this.balancer.endpoints
    this.takeEndpoints(spec, (endpoint, i, known) => {
      const slot = endpointSlots[i] ?? 0
      if (known === undefined) return new WorkerBackend(endpoint, pages, slot)
      const isListed = this.balancer.get(known.key) === known
      if (!isListed) known.attach(pages, slot)
      return known
    })
    for (const backend of before) {
      if (this.balancer.get(backend.key) !== backend) backend.detach()
    }
  }

  override failed(backend: WorkerBackend, rest: number): number {
    return (backend.restingUntil = super.failed(backend, rest))
  }

  override served(backend: WorkerBackend): void {
    if (backend.failures > 0) backend.restingUntil = 0
    super.served(backend)
  }

  /** Nothing is left of it. */
  end(): void {
    for (const backend of this.balancer.endpoints) backend.detach()
    this.balancer.setEndpoints([])
  }
}
