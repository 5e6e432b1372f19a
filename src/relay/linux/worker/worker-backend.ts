import { type Cell, OwnCell } from '../../../balance/cell.ts'
import type { Doubts } from '../../../balance/doubts.ts'
import type { Replies } from '../../../balance/replies.ts'
import { noRest, type Rest } from '../../../balance/resting.ts'
import type { Recovery } from '../../../balance/slow-start.ts'
import type { Backend } from '../../backend.ts'
import type { RelayEndpoint } from '../../relay.ts'
import type { EndpointPlaces } from '../../shared-places.ts'
import { endpointCell as cell } from '../shared/stats-pages.ts'
import type { WorkerEnv } from './worker-env.ts'

/** Where figures and rests of endpoints are, by slot. */
type EndpointMemory = Pick<WorkerEnv, 'endpointPages' | 'restPages'>

/**
 * An endpoint in a worker; one object as long as it stays listed, and its connections hold
 * it longer. Its figures and its rest lie in shared memory while it is listed.
 */
export class WorkerBackend implements Backend {
  readonly key: string
  readonly address: string
  readonly port: number
  tier: number | undefined
  weight: number | undefined
  replies: Cell<Replies> | undefined
  doubts: Cell<Doubts> | undefined
  servedAt: number | undefined
  recovery: Cell<Recovery> | undefined
  places: EndpointPlaces | undefined
  lastFailure: Backend['lastFailure']
  /** Struct sockaddr of it, made when it is first dialled. */
  sockaddr: Uint8Array | undefined
  /** When TCP_INFO was last asked of one of its connections. */
  sampledAt = -Infinity
  #figures: Float64Array
  #start: number
  #rest: Cell<Rest>

  constructor(
    { key, address, port, tier, weight }: RelayEndpoint,
    { endpointPages, restPages }: EndpointMemory,
    slot: number,
  ) {
    this.key = key
    this.address = address
    this.port = port
    this.tier = tier
    this.weight = weight
    this.#figures = endpointPages.pageOf(slot)
    this.#start = endpointPages.offsetOf(slot)
    this.#rest = restPages.of(slot)
  }

  get rest(): Cell<Rest> {
    return this.#rest
  }

  get active(): number {
    return this.#read(cell.active)
  }

  set active(count: number) {
    this.#write(cell.active, count)
  }

  get connections(): number {
    return this.places?.taken ?? this.active
  }

  get failures(): number {
    return this.#read(cell.failures)
  }

  set failures(count: number) {
    this.#write(cell.failures, count)
  }

  /** The main thread looks at `rest`. */
  readonly resting = false

  /** What the kernel says of one of its connections; see `endpointCell`. */
  sampled(now: number, rttUs: number, retransmits: number): void {
    this.sampledAt = now
    this.#write(cell.rttUs, rttUs)
    this.#write(cell.retransmits, this.#read(cell.retransmits) + retransmits)
  }

  /** Listed again, after `detach`. */
  attach({ endpointPages, restPages }: EndpointMemory, slot: number): void {
    const own = this.#figures
    this.#figures = endpointPages.pageOf(slot)
    this.#start = endpointPages.offsetOf(slot)
    this.#figures.set(own, this.#start)
    this.#rest = restPages.of(slot)
  }

  /** No longer listed: the slot is going to be another's, but connections still count here. */
  detach(): void {
    const own = this.#figures.slice(this.#start, this.#start + cell.count)
    this.#figures.fill(0, this.#start, this.#start + cell.count)
    this.#figures = own
    this.#start = 0
    this.#rest = new OwnCell(noRest)
    this.replies = undefined
    this.doubts = undefined
    this.recovery = undefined
  }

  #read(at: number): number {
    return this.#figures[this.#start + at] ?? 0
  }

  #write(at: number, value: number): void {
    this.#figures[this.#start + at] = value
  }
}
