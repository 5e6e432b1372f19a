import { type Cell, OwnCell } from '../../../balance/cell.ts'
import type { Doubts } from '../../../balance/doubts.ts'
import type { Replies } from '../../../balance/replies.ts'
import { noCooldown, type Cooldown, type Recovery } from '../../../balance/cooldown.ts'
import type { Backend } from '../../front.ts'
import type { RelayEndpoint, RelayLimits } from '../../relay.ts'
import type { EndpointPlaces } from '../../shared-places.ts'
import { endpointCell as cell, type StatsPages } from '../shared/stats-pages.ts'
import type { EndedConnections } from '../../ended-connections.ts'
import type { NodeClientSet } from '../../node-clients.ts'
import type { Outbox } from '../../remote/outbox.ts'
import type { EventLoop } from '../event-loop.ts'
import type { NativeMemory, Syscalls } from '../../../ffi/syscalls.ts'
import { writeSockaddr } from '../sockaddr.ts'
import type { SharedEndpointState } from '../shared/shared-endpoint-state.ts'
import type { WorkerSigns } from '../shared/worker-signs.ts'
import type { FdAccount } from './fd-account.ts'
import type { WorkerQueues } from './worker-queues.ts'

/** Where figures and cooldowns of endpoints are, by slot. */
type EndpointMemory = Pick<WorkerEnv, 'endpointPages' | 'endpointState'>

/**
 * An endpoint in a worker; one object as long as it stays listed, and its connections hold
 * it longer. Its figures and its cooldown lie in shared memory while it is listed.
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
  /** When TCP_INFO was last asked of one of its connections. */
  sampledAt = -Infinity
  #figures: Float64Array
  #start: number
  #cooldown: Cell<Cooldown>
  #sockaddr: Uint8Array | undefined

  /** Without `memory` it is one that is not listed. */
  constructor(
    { key, address, port, tier, weight }: RelayEndpoint,
    memory?: EndpointMemory,
    slot = 0,
  ) {
    this.key = key
    this.address = address
    this.port = port
    this.tier = tier
    this.weight = weight
    this.#figures = memory?.endpointPages.pageOf(slot) ?? new Float64Array(cell.count)
    this.#start = memory?.endpointPages.offsetOf(slot) ?? 0
    this.#cooldown = memory?.endpointState.cooldownOf(slot) ?? new OwnCell(noCooldown)
  }

  get cooldown(): Cell<Cooldown> {
    return this.#cooldown
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

  /** Struct sockaddr of it; `memory` is to make it in when it is first dialled. */
  sockaddr(memory: NativeMemory): Uint8Array {
    if (this.#sockaddr !== undefined) return this.#sockaddr
    const length = writeSockaddr(memory, 0, this.address, this.port)
    this.#sockaddr = Uint8Array.from(memory.bytes.subarray(0, length))
    return this.#sockaddr
  }

  /** What the kernel says of one of its connections; see `endpointCell`. */
  sampled(now: number, rttUs: number, retransmits: number): void {
    this.sampledAt = now
    this.#write(cell.rttUs, rttUs)
    this.#write(cell.retransmits, this.#read(cell.retransmits) + retransmits)
  }

  /** Listed again, after `detach`. */
  attach({ endpointPages, endpointState }: EndpointMemory, slot: number): void {
    const own = this.#figures
    this.#figures = endpointPages.pageOf(slot)
    this.#start = endpointPages.offsetOf(slot)
    this.#figures.set(own, this.#start)
    this.#cooldown = endpointState.cooldownOf(slot)
  }

  /** No longer listed: the slot is going to be another's, but connections still count here. */
  detach(): void {
    const own = this.#figures.slice(this.#start, this.#start + cell.count)
    this.#figures.fill(0, this.#start, this.#start + cell.count)
    this.#figures = own
    this.#start = 0
    this.#cooldown = new OwnCell(noCooldown)
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

/** What the listeners of a worker share. */
export interface WorkerEnv {
  /** Which of the workers it is, from 1 on. */
  readonly thread: number
  readonly calls: Syscalls
  readonly loop: EventLoop
  /** Whether the TTL of clients' packets can be known. */
  readonly knowsTtl: boolean
  /** Whether what a socket has taken may be on its way to the kernel yet. */
  readonly buffersWrites: boolean
  readonly random: () => number
  readonly limits: RelayLimits
  readonly fds: FdAccount
  readonly queues: WorkerQueues
  readonly listenerPages: StatsPages
  readonly endpointPages: StatsPages
  /** All workers' own. */
  readonly endpointState: SharedEndpointState
  readonly signs: WorkerSigns
  readonly nodeClients: NodeClientSet
  readonly observer: Pick<
    Outbox,
    'wants' | 'connectionClosed' | 'accessLines' | 'lastError' | 'allFailed' | 'fault'
  >
  /** For subscribers to connections that end. */
  readonly endedConnections: EndedConnections
  /** Whether a UDP listener of this relay is bound to this address and port. */
  isOwn(address: string, port: number): boolean
}
