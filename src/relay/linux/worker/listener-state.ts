import { ListenerEndpoints } from '../../listener-endpoints.ts'
import { WaitingPlaces } from '../../waiting-places.ts'
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
    super(env.loop.clock, env.random, env.nodeClients, env.limits)
    this.#env = env
    this.#name = spec.name
    this.slot = slot
    this.counters = new CounterWriter(env.listenerPages, slot)
  }

  get name(): string {
    return this.#name
  }

  take({ spec, endpointSlots, places }: ListenerOrder): void {
    const memory = this.#env
    this.#name = spec.name
    this.wanted = true
    if (places) this.places ??= new WaitingPlaces(places, this.#env.thread)
    const before = this.balancer.endpoints
    this.takeEndpoints(spec, (endpoint, i, known) => {
      const slot = endpointSlots[i] ?? 0
      const backend = known ?? new WorkerBackend(endpoint, memory, slot)
      const isListed = this.balancer.get(endpoint.key) === known
      if (known !== undefined && !isListed) known.attach(memory, slot)
      const counts = spec.retry?.expectsReplies === true
      const replies = backend.replies ?? memory.restPages.repliesOf(slot)
      backend.replies = counts ? replies : undefined
      return backend
    })
    for (const backend of before) {
      if (this.balancer.get(backend.key) !== backend) backend.detach()
    }
  }

  protected override tellAllFailed(): void {
    this.#env.observer.allFailed(this.#name)
  }

  /** Nothing is left of it. */
  end(): void {
    for (const backend of this.balancer.endpoints) backend.detach()
    this.balancer.setEndpoints([])
  }
}
