import { ConnectionLimiter, limiterFor } from '../../connection-limiter.ts'
import { countsUnserved, ListenerEndpoints } from '../../listener-endpoints.ts'
import { SharedPlaces } from '../../shared-places.ts'
import type { ListenerOrder } from '../orders.ts'
import { Counters } from '../../counters.ts'
import { WorkerBackend, type WorkerEnv } from './worker-backend.ts'

/** What TCP and UDP listeners of a worker have in common: endpoints and figures. */
export class ListenerState extends ListenerEndpoints<WorkerBackend> {
  readonly slot: number
  readonly counters: Counters
  /** False once it is to go. */
  wanted = true
  /** Kept while there are no limits: connections from before count in it. */
  #limiter: ConnectionLimiter | undefined
  readonly #env: WorkerEnv
  #name: string

  constructor(env: WorkerEnv, { slot, spec }: ListenerOrder) {
    super(env.loop.clock, env.random, env.nodeClients, env.limits, env.queues)
    this.#env = env
    this.#name = spec.name
    this.slot = slot
    this.counters = new Counters(
      env.listenerPages.pageOf(slot),
      env.listenerPages.offsetOf(slot),
    )
  }

  get name(): string {
    return this.#name
  }

  take({ spec, endpointSlots, places, capacity, limiter }: ListenerOrder): void {
    const memory = this.#env
    this.#name = spec.name
    this.wanted = true
    if (places) this.places ??= new SharedPlaces(places)
    if (limiter) this.#limiter ??= new ConnectionLimiter(limiter)
    this.limiter = limiterFor(this.#limiter, spec)
    const before = this.listed
    this.takeEndpoints(
      spec,
      (endpoint, i, known) => {
        const slot = endpointSlots[i] ?? 0
        const backend = known ?? new WorkerBackend(endpoint, memory, slot)
        const isListed = this.listedAt(endpoint.key) === known
        if (known !== undefined && !isListed) known.attach(memory, slot)
        const counts = spec.retry?.expectsReplies === true
        const replies = backend.replies ?? memory.endpointState.repliesOf(slot)
        backend.replies = counts ? replies : undefined
        const doubts = backend.doubts ?? memory.endpointState.doubtsOf(slot)
        backend.doubts = countsUnserved(spec) ? doubts : undefined
        const slowly = (spec.balance?.slowStartMs ?? 0) > 0
        const recovery = backend.recovery ?? memory.endpointState.recoveryOf(slot)
        backend.recovery = slowly ? recovery : undefined
        return backend
      },
      capacity,
    )
    for (const backend of before) {
      if (this.listedAt(backend.key) !== backend) backend.detach()
    }
  }

  protected override reportAllFailed(): void {
    this.#env.observer.allFailed(this.#name)
  }

  /** Nothing is left of it. */
  end(): void {
    for (const backend of this.listed) backend.detach()
    this.balancer.setEndpoints([])
    this.capacity.close()
  }
}
