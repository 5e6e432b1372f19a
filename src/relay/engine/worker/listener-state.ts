import { ConnectionLimiter, limiterFor } from '../../connection-limiter.ts'
import { countsUnserved, ListenerEndpoints } from '../../listener-endpoints.ts'
import { SharedPlaces } from '../../shared-places.ts'
import type { ListenerOrder } from '../orders.ts'
import { Counters } from '../../counters.ts'
import { WorkerBackend, type WorkerEnv } from './worker-backend.ts'

/** What TCP and UDP listeners of a worker have in common: endpoints and figures. */
export class ListenerState extends ListenerEndpoints<WorkerBackend> {
  /** Of its `RelayListener`. */
  readonly id: string
  readonly slot: number
  /** False once it is to go. */
  wanted = true
  /** Kept while there are no limits: connections from before count in it. */
  #limiter: ConnectionLimiter | undefined
  readonly #env: WorkerEnv
  #name: string

  constructor(env: WorkerEnv, { slot, spec }: ListenerOrder) {
    const { listenerPages: pages, limits, queues } = env
    const counters = new Counters(pages.pageOf(slot), pages.offsetOf(slot))
    super(env.loop.clock, env.random, env.nodeClients, limits, queues, counters)
    this.#env = env
    this.#name = spec.name
    this.id = spec.id
    this.slot = slot
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
    const { endpointState: state } = memory
    const { expectsReplies } = spec.retry ?? {}
    const isCounted = countsUnserved(spec)
    const isSlow = (spec.balance?.slowStartMs ?? 0) > 0
    this.takeEndpoints(
      spec,
      (endpoint, i, known) => {
        const slot = endpointSlots[i] ?? 0
        const backend = known ?? new WorkerBackend(endpoint, memory, slot)
        const isListed = this.listedAt(endpoint.key) === known
        if (known !== undefined && !isListed) known.attach(memory, slot)
        const { replies, doubts, recovery } = backend
        backend.replies = expectsReplies ? (replies ?? state.repliesOf(slot)) : undefined
        backend.doubts = isCounted ? (doubts ?? state.doubtsOf(slot)) : undefined
        backend.recovery = isSlow ? (recovery ?? state.recoveryOf(slot)) : undefined
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
