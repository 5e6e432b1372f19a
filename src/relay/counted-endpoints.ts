import { balancePolicies } from '../model/balance-policies.ts'
import { newQueueTickets, type QueueTickets } from './queue-tickets.ts'
import type { RelayListener } from './relay.ts'
import { newSharedPlaces, type SharedPlaces } from './shared-places.ts'

/** Of `SharedPlaces`. What is posted to a thread is another object each time: `id` tells. */
export interface PlacesMemory {
  readonly id: number
  readonly memory: SharedArrayBuffer
}

/** What workers share of a listener whose endpoints' connections are counted. */
export interface CapacityMemory {
  /** One for each of the listener's endpoints, in their order. */
  readonly endpoints: readonly PlacesMemory[]
  /** Where endpoints have a limit. */
  readonly queue?: {
    readonly tickets: SharedArrayBuffer
    readonly places: SharedArrayBuffer
  }
}

interface Counted {
  readonly id: number
  readonly places: SharedPlaces
}

/** What the workers of a listener count together of its endpoints, and who waits for a place there. */
export class CountedEndpoints {
  readonly #workers: number
  #endpoints: ReadonlyMap<string, Counted> = new Map()
  #lastId = 0
  #tickets: QueueTickets | undefined
  #waiting: SharedPlaces | undefined
  #memory: CapacityMemory | undefined

  constructor(workers = 1) {
    this.#workers = workers
  }

  /** Undefined where nothing is counted. */
  get memory(): CapacityMemory | undefined {
    return this.#memory
  }

  /** Clients that wait for a place. */
  get queued(): number {
    return this.#waiting?.taken ?? 0
  }

  take({ protocol, endpoints, balance, capacity }: RelayListener): void {
    const { counts = false } = balancePolicies[balance?.by ?? 'round-robin']
    const isCounted = capacity !== undefined || counts
    if (protocol !== 'TCP' || !isCounted) {
      this.#endpoints = new Map()
      this.#memory = undefined
      return
    }
    // One that is gone, and may come back, has its connections still.
    const after = new Map(
      [...this.#endpoints].filter(([, { places }]) => places.taken > 0),
    )
    const listed = endpoints.map(({ key }) => {
      const counted = after.get(key) ?? this.#endpoints.get(key) ?? this.#newCount()
      after.set(key, counted)
      return { id: counted.id, memory: counted.places.memory }
    })
    this.#endpoints = after
    this.#memory = { endpoints: listed, ...(capacity && { queue: this.#queue() }) }
  }

  #newCount(): Counted {
    this.#lastId += 1
    return { id: this.#lastId, places: newSharedPlaces() }
  }

  #queue(): NonNullable<CapacityMemory['queue']> {
    this.#tickets ??= newQueueTickets(this.#workers)
    this.#waiting ??= newSharedPlaces()
    return { tickets: this.#tickets.memory, places: this.#waiting.memory }
  }
}
