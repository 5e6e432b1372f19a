import type { Balancer } from '../balance/balancer.ts'
import type { KeySet, Pool } from '../balance/pool.ts'
import type { CapacityOptions } from '../model/traffic.ts'
import type { Backend } from './front.ts'
import { ConnectionQueue, type Waiting } from './connection-queue.ts'
import type { CapacityMemory } from './counted-endpoints.ts'
import { QueueTickets } from './queue-tickets.ts'
import { EndpointPlaces, SharedPlaces } from './shared-places.ts'

/** Whose turn it is; whether that is taken is for who gives it. */
type Turns<B extends Backend> = Pick<Balancer<B>, 'pickGood' | 'pickCoolingDown'>

/** The queues of a worker's listeners. */
export interface Queues {
  /** Which of the workers it is, from 1 on. */
  readonly worker: number
  add(queue: ConnectionQueue): void
  remove(queue: ConnectionQueue): void
  /** Has another worker call `woken` of its queues. */
  wake(worker: number): void
}

/** How many connections the endpoints of a listener have and may have, and who waits for a place. */
export class EndpointCapacity<B extends Backend> {
  readonly #balancer: Balancer<B>
  readonly #queues: Queues
  #options: CapacityOptions | undefined
  #memory: CapacityMemory | undefined
  /** Undefined unless endpoints have a limit. */
  #queue: ConnectionQueue | undefined
  /** Connections that are open have yet to take places that there were not before. */
  hasNewPlaces = false

  constructor(balancer: Balancer<B>, queues: Queues) {
    this.#balancer = balancer
    this.#queues = queues
  }

  /** What is wanted from now on. `placesOf` and `settle` are to be called next. */
  take(options: CapacityOptions | undefined, memory: CapacityMemory | undefined): void {
    this.#options = options
    this.#memory = memory
    this.#balancer.maxConnections = options?.maxConnections ?? Infinity
    if (memory?.queue !== undefined) this.#queue ??= this.#newQueue(memory.queue)
  }

  /** Where connections to an endpoint that is listed at `index` are counted; undefined: nowhere. */
  placesOf({ places, active }: B, index: number): EndpointPlaces | undefined {
    const counted = this.#memory?.endpoints[index]
    if (counted === undefined || places?.id === counted.id) return counted && places
    if (active > 0) this.hasNewPlaces = true
    return new EndpointPlaces(counted.id, counted.memory, this.checkQueue)
  }

  /** The endpoints are those of now: who waits may have a place, or need none any more. */
  settle(): void {
    if (this.#memory?.queue !== undefined) return this.checkQueue()
    this.#queue?.serve()
    this.close()
  }

  close(): void {
    if (this.#queue !== undefined) this.#queues.remove(this.#queue)
    this.#queue = undefined
  }

  /**
   * Where a client's connection is to go next: a place is taken for it there (`places`), to be
   * given back when its socket is closed. `full`: it is to wait for one; undefined: no endpoint is left.
   */
  pick(
    client: string,
    tried: KeySet | undefined,
    among: Pool<B> | undefined,
  ): B | 'full' | undefined {
    const balancer = this.#balancer
    for (;;) {
      const found = this.#choose(balancer, client, tried, among)
      if (found === undefined || found === 'full') return found
      // Another worker may have been faster.
      if (found.places?.take(balancer.maxConnections) !== false) return found
    }
  }

  /**
   * Those of which `pick` would give one now, by chance where there are several. Changes nothing, and takes
   * no place.
   */
  likely(client: string, among: Pool<B> | undefined): readonly B[] | 'full' {
    const balancer = this.#balancer
    let likely: readonly B[] = []
    const firstOf = (found: readonly B[]): B | undefined => (likely = found)[0]
    const likelyTurns: Turns<B> = {
      pickGood: (...given) => firstOf(balancer.likelyGood(...given)),
      pickCoolingDown: (...given) => firstOf(balancer.likelyCoolingDown(...given)),
    }
    // All that are likely are as good as the first: of one tier, and with a weight or without.
    return this.#choose(likelyTurns, client, undefined, among) === 'full'
      ? 'full'
      : likely
  }

  /** By what `turns` give. */
  #choose(
    turns: Turns<B>,
    client: string,
    tried: KeySet | undefined,
    among: Pool<B> | undefined,
  ): B | 'full' | undefined {
    const balancer = this.#balancer
    const good = turns.pickGood(client, tried, among)
    if (this.#options === undefined)
      return good ?? turns.pickCoolingDown(client, tried, among)
    if (balancer.isWorthWaiting(client, good, tried, among)) return 'full'
    const found = good ?? turns.pickCoolingDown(client, tried, among)
    if (found !== undefined) return found
    return balancer.isAnyFull(tried, among) ? 'full' : undefined
  }

  /** Whether clients wait for a place. */
  get hasQueued(): boolean {
    return this.#queue !== undefined && this.#queue.length > 0
  }

  /** Milliseconds that a client may wait for a place. */
  get queueMs(): number {
    return this.#options?.queueMs ?? 0
  }

  /** Whether one client more may wait for a place; if so, `dequeue` is to be called. */
  enqueue(one: Waiting): boolean {
    return this.#queue?.join(one, this.#mostQueued) ?? false
  }

  /** What `enqueue` would say now. */
  get mayQueue(): boolean {
    return this.#queue?.hasRoom(this.#mostQueued) ?? false
  }

  get #mostQueued(): number {
    return this.#options?.mostQueued ?? 0
  }

  dequeue(one: Waiting): void {
    this.#queue?.leave(one)
  }

  /** There may be a place for whoever waits. */
  readonly checkQueue = (): void => this.#queue?.placeFreed()

  #newQueue({ tickets, places }: NonNullable<CapacityMemory['queue']>): ConnectionQueue {
    const balancer = this.#balancer
    const { worker } = this.#queues
    const queue = new ConnectionQueue(
      {
        tickets: new QueueTickets(tickets, worker),
        places: new SharedPlaces(places),
      },
      () => balancer.endpoints.some(one => !balancer.isFull(one)),
      other => this.#queues.wake(other),
    )
    this.#queues.add(queue)
    return queue
  }
}
