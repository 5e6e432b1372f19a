import { isUnix } from '../../../util/unix-address.ts'
import { BindSet, type Listening, lastErrorAfter } from '../../bind-set.ts'
import { CountedEndpoints } from '../../counted-endpoints.ts'
import {
  type LimiterMemory,
  limitsClients,
  newLimiterMemory,
} from '../../connection-limiter.ts'
import { closedReason } from '../../explain-pick.ts'
import type { ExplainQuery, Explanation } from '../../explanation.ts'
import { counterCell, countersOf } from '../../counters.ts'
import { allClosed, holdsClients, openFronts } from '../../open-fronts.ts'
import {
  type Bind,
  type BindState,
  type EndpointStats,
  type ListenerStats,
  type RelayListener,
  type RelayObserver,
  bindKey,
} from '../../relay.ts'
import { type SharedPlaces, newSharedPlaces } from '../../shared-places.ts'
import type { MovedAffinity } from '../../hand-over/moved.ts'
import type { ReceivedLines } from '../../access-log/access-lines.ts'
import type { ListenerOrder } from '../orders.ts'
import type { Slots } from '../shared/slot-pages.ts'
import type { Figures } from './figures.ts'
import type { CountedListener } from './hand-over.ts'
import type { ListeningBudget } from './listening-budget.ts'
import {
  type Group,
  type Holder,
  type OpenSockets,
  type Spread,
  threadsOf,
} from './open-sockets.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** What ports share. */
export interface PortEnv {
  readonly workers: readonly WorkerHandle[]
  readonly sockets: OpenSockets
  readonly budget: ListeningBudget
  readonly figures: Figures
  readonly listenerSlots: Slots
  readonly endpointSlots: Slots
  /** Of the workers that there are now. */
  readonly accessLines: ReceivedLines
  /** Of workers: 1, 2, ...; 0 while there are none. */
  readonly generation: () => number
  readonly observer: Pick<RelayObserver, 'bindChanged' | 'accessLines' | 'fault'>
}

/** One ServicePort as the main thread has it: its sockets, and where its figures are. */
export class Port implements Holder {
  readonly slot: number
  lastError = ''
  /** False once `apply` left it out. */
  wanted = true
  /** Workers that have yet to report that nothing is left of it; see `retire`. */
  readonly retiring = new Set<WorkerHandle>()
  readonly #env: PortEnv
  readonly #binds: BindSet
  /** Those that listen. */
  readonly #groups = new Map<string, Group>()
  /** How many there are, with those that don't. */
  #held = 0
  #spec: RelayListener
  #slots: ReadonlyMap<string, number> = new Map()
  #workers: readonly WorkerHandle[] = []
  #opens = 0
  /** The generation of workers that knows it. */
  #knownTo = 0
  /** Shared with its workers, from when its clients may wait. */
  #places: SharedPlaces | undefined
  #counted: CountedEndpoints
  readonly #figures: LastFigures
  /** The same, from when its connections are limited. */
  #limiter: LimiterMemory | undefined

  constructor(env: PortEnv, spec: RelayListener) {
    this.#env = env
    this.#spec = spec
    this.slot = env.listenerSlots.take()
    this.#counted = new CountedEndpoints(env.workers.length)
    this.#figures = new LastFigures(env.figures.now)
    this.#binds = new BindSet(
      (bind, isIdle) => this.#open(bind, isIdle),
      state => this.#bindChanged(state),
    )
  }

  get spec(): RelayListener {
    return this.#spec
  }

  get id(): string {
    return this.#spec.id
  }

  get protocol(): RelayListener['protocol'] {
    return this.#spec.protocol
  }

  get isKnown(): boolean {
    return this.#knownTo > 0 && this.#knownTo === this.#env.generation()
  }

  get spread(): Spread {
    const { affinityMs, limits, acceptProxy } = this.#spec
    if (affinityMs === 0 && !limitsClients(limits)) return 'any'
    return acceptProxy === undefined ? 'by-client' : this.slot
  }

  /**
   * Takes over what is wanted now, and lets go of addresses that are not. Gives slots of
   * endpoints that are gone, to be freed when workers have taken it over too.
   */
  take(spec: RelayListener): readonly number[] {
    this.#spec = spec
    this.wanted = true
    this.retiring.clear()
    const left = this.#takeEndpoints()
    const { open, closed } = openFronts(spec)
    const keepsPorts = spec.protocol === 'TCP' && this.#env.sockets.keepsPorts
    const idle = closed.filter(({ bind }) => keepsPorts && !isUnix(bind.address))
    this.#count(open.length + idle.length)
    // First: a worker resets who comes to an address that has no front any more.
    this.#binds.want(open, closed, idle)
    this.#send()
    this.#steer()
    return left
  }

  /** Listens where it is wanted; resolves when each new address was tried once. */
  listen(): Promise<void> {
    return this.#binds.listen()
  }

  /** Hands the listener and its open sockets to workers that know nothing. */
  sendAgain(): void {
    if (this.wanted && !this.isKnown) this.#send()
  }

  reopen(bind: Bind): void {
    this.#binds.reopen(bind)
  }

  /** The sockets of each address that listens. */
  get groups(): readonly Group[] {
    return [...this.#groups.values()]
  }

  /** Connections or flows that are open. */
  get active(): number {
    return this.#env.figures.counters(this.slot)[counterCell.plain.active] ?? 0
  }

  /** Which of how many sockets at an address is a worker's, where each client comes to the same one. */
  placeOf(worker: WorkerHandle): Pick<MovedAffinity, 'socket' | 'of'> {
    const [group] = this.groups
    const socket = group?.sockets.findIndex(one => one.worker === worker) ?? -1
    return group?.spread === 'by-client' && socket >= 0
      ? { socket, of: group.sockets.length }
      : { socket: 0, of: 0 }
  }

  /** To whom clients come that came to such a place in another process. */
  workersAt({
    socket,
    of,
  }: Pick<MovedAffinity, 'socket' | 'of'>): readonly WorkerHandle[] {
    const { groups } = this
    const alike = groups.find(
      one => one.spread === 'by-client' && one.sockets.length === of,
    )
    const one = alike?.sockets[socket]
    if (one !== undefined) return [one.worker]
    return [
      ...new Set(groups.flatMap(({ sockets }) => sockets.map(({ worker }) => worker))),
    ]
  }

  stopListening(reason: string): void {
    this.#binds.want([], allClosed(this.#spec, reason))
  }

  /** Closes its sockets; what is open goes on until `retiring` is empty. */
  retire(): void {
    this.wanted = false
    this.#count(0)
    this.#binds.want([])
    for (const worker of this.isKnown ? this.#env.workers : []) {
      this.retiring.add(worker)
      worker.post({ kind: 'retire', slot: this.slot })
    }
    this.#knownTo = 0
  }

  /** Its workers are no more, with connections, clients that wait and lines of the access log. */
  over(): void {
    const { workers, accessLines, figures, observer } = this.#env
    this.#places = undefined
    this.#counted = new CountedEndpoints(workers.length)
    this.#limiter = undefined
    const cells = figures.counters(this.slot)
    const lines = accessLines.lost(this.#spec, {
      accessLines: cells[counterCell.plain.accessLines] ?? 0,
      active: cells[counterCell.plain.active] ?? 0,
    })
    if (lines !== undefined) observer.accessLines?.(lines)
  }

  /** No worker knows of it any more. */
  free(): void {
    const { figures, listenerSlots, endpointSlots, accessLines } = this.#env
    accessLines.forget(this.#spec.name)
    figures.clear(this.slot, this.#slots.values())
    listenerSlots.free(this.slot)
    for (const slot of this.#slots.values()) endpointSlots.free(slot)
  }

  stats(): ListenerStats {
    const { id, name, protocol } = this.#spec
    const { lastError, wanted } = this
    const { figures } = this.#env
    const cells = figures.counters(this.slot)
    cells[counterCell.plain.held] = this.#places?.taken ?? 0
    cells[counterCell.plain.queued] = this.#counted.queued
    const uncounted = {
      id,
      name,
      protocol,
      binds: this.#binds.states(),
      lastError,
      failing: isFailing(cells, figures.now()),
      wanted,
    }
    return this.#figures.read(cells, uncounted, () =>
      [...this.#slots].map(([key, slot]) => figures.endpoint(key, slot)),
    )
  }

  /** What another process has counted that served before. */
  takeOver({ counters, endpoints }: CountedListener): void {
    const known = endpoints.flatMap(one => {
      const slot = this.#slots.get(one.key)
      return slot === undefined ? [] : [[slot, one] as const]
    })
    this.#env.figures.takeOver(this.slot, { counters, endpoints: new Map(known) })
    this.#figures.changed()
  }

  /** With what is at the address itself; `workers`: as they see it. */
  explained(
    { bind, client }: ExplainQuery,
    workers: Explanation['workers'],
  ): Explanation {
    const group = this.#groups.get(bindKey(bind))
    const threads = group === undefined ? [] : threadsOf(group, client)
    return {
      closed: closedReason(this.#binds.states(), bind),
      by: this.#spec.balance?.by ?? 'round-robin',
      workers: workers.map(one => ({ ...one, mayCome: threads.includes(one.thread) })),
    }
  }

  /** Endpoints that stay keep their slots. */
  #takeEndpoints(): readonly number[] {
    const { endpointSlots } = this.#env
    const before = this.#slots
    const after = new Map<string, number>()
    for (const { key } of this.#spec.endpoints) {
      if (!after.has(key)) after.set(key, before.get(key) ?? endpointSlots.take())
    }
    this.#slots = after
    this.#figures.changed()
    return [...before].flatMap(([key, slot]) => (after.has(key) ? [] : [slot]))
  }

  /** To workers that don't know it its open sockets, too. */
  #send(): void {
    const { workers, sockets, listenerSlots, endpointSlots, generation } = this.#env
    const wasKnown = this.isKnown
    const order = this.#order()
    for (const worker of workers) {
      worker.ensurePages(listenerSlots.count, endpointSlots.count)
      worker.post({ kind: 'listener', ...order })
    }
    this.#knownTo = generation()
    if (!wasKnown) for (const group of this.#groups.values()) sockets.assign(this, group)
  }

  #order(): ListenerOrder {
    const { slot, spec } = this
    if (holdsClients(spec)) this.#places ??= newSharedPlaces()
    this.#counted.take(spec)
    if (spec.limits) this.#limiter ??= newLimiterMemory()
    const endpointSlots = spec.endpoints.map(({ key }) => this.#slots.get(key) ?? 0)
    const { memory: capacity } = this.#counted
    return {
      slot,
      spec,
      endpointSlots,
      places: this.#places?.memory,
      capacity,
      limiter: this.#limiter,
    }
  }

  async #open(bind: Bind, isIdle: boolean): Promise<Listening> {
    const { sockets, workers, budget } = this.#env
    // All its addresses alike, so that affinity spans them.
    if (this.#held === 0) {
      const one = workers[this.slot % workers.length]
      this.#workers = budget.allowsSharing(workers.length) || !one ? workers : [one]
    }
    const group = await sockets.open(this, bind, this.#workers, isIdle)
    const key = bindKey(bind)
    this.#held += 1
    if (!isIdle) this.#groups.set(key, group)
    return {
      ...group.file,
      close: () => {
        this.#held -= 1
        if (this.#groups.delete(key)) sockets.letGo(this, group)
        else sockets.closePaused(group)
      },
      pause: () => {
        this.#groups.delete(key)
        sockets.pause(this, group)
      },
      resume: () => {
        sockets.resume(this, group)
        this.#groups.set(key, group)
      },
    }
  }

  #steer(): void {
    try {
      for (const group of this.#groups.values()) {
        this.#env.sockets.steer(group, this.spread)
      }
    } catch (error) {
      this.#env.observer.fault(this.#spec.name, error as Error)
    }
  }

  /** How many addresses are wanted in all decides whether workers share them. */
  #count(opens: number): void {
    this.#env.budget.want(opens - this.#opens)
    this.#opens = opens
  }

  #bindChanged(state: BindState): void {
    this.lastError = lastErrorAfter(this.lastError, state)
    this.#env.observer.bindChanged(this.#spec.name, state)
  }
}

/** What of a port's figures is not counted. */
type UncountedStats = Omit<ListenerStats, 'counters' | 'endpoints'>

/**
 * Milliseconds after the last change of a port for which its endpoints are read, too: a worker
 * writes their figures a moment before or after those of the port.
 */
const settleMs = 2000

/**
 * The figures of a port as they were last read. As long as nothing changes they are the same object,
 * and no endpoint is read: of 10 000 ports with 10 endpoints few have traffic at any one time.
 */
export class LastFigures {
  readonly #now: () => number
  #stats: ListenerStats | undefined
  /** By `counterCell`, without the zeros at the end. */
  #cells: readonly number[] = []
  #changedAt = 0
  /** An endpoint has a connection, or is cooling down. */
  #isUsed = false

  /** `now`: milliseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** It has other endpoints. */
  changed(): void {
    this.#changedAt = this.#now()
  }

  /** `cells`: all of `counterCell`. */
  read(
    cells: Float64Array,
    uncounted: UncountedStats,
    readEndpoints: () => readonly EndpointStats[],
  ): ListenerStats {
    const last = this.#stats
    const isCounted = last === undefined || !areSame(this.#cells, cells)
    if (isCounted) {
      this.#cells = withoutZeros(cells)
      this.changed()
    }
    const endpoints = isCounted || this.#mayMove(last) ? readEndpoints() : last.endpoints
    if (
      !isCounted &&
      isSameUncounted(last, uncounted) &&
      areAlike(last.endpoints, endpoints)
    )
      return last
    const counters = isCounted ? countersOf(cell => cells[cell] ?? 0) : last.counters
    this.#isUsed = endpoints.some(({ active, coolingDown }) => active > 0 || coolingDown)
    this.#stats = { ...uncounted, counters, endpoints }
    return this.#stats
  }

  /** Whether an endpoint's figures may have changed where the port's have not. */
  #mayMove({ counters }: ListenerStats): boolean {
    return this.#isUsed || counters.active > 0 || this.#now() < this.#changedAt + settleMs
  }
}

/** Milliseconds for which a client that got no endpoint tells of the next one. */
const failingMs = 10_000

const isFailing = (cells: Float64Array, now: number): boolean => {
  const unservedAt = cells[counterCell.unservedAt] ?? 0
  const servedAt = cells[counterCell.servedAt] ?? 0
  return unservedAt > servedAt && now - unservedAt < failingMs
}

/** Those that are missing at the end are 0. For 10 000 ports a second: without a call for each cell. */
const areSame = (known: readonly number[], cells: Float64Array): boolean => {
  for (let cell = 0; cell < cells.length; cell += 1)
    if (cells[cell] !== (cell < known.length ? known[cell] : 0)) return false
  return true
}

const withoutZeros = (cells: Float64Array): readonly number[] => [
  ...cells.subarray(0, 1 + cells.findLastIndex(count => count !== 0)),
]

/** The list of binds is another one when one of them changes. */
const isSameUncounted = (last: UncountedStats, uncounted: UncountedStats): boolean =>
  last.id === uncounted.id &&
  last.name === uncounted.name &&
  last.protocol === uncounted.protocol &&
  last.lastError === uncounted.lastError &&
  last.failing === uncounted.failing &&
  last.wanted === uncounted.wanted &&
  last.binds === uncounted.binds

const areAlike = (a: readonly EndpointStats[], b: readonly EndpointStats[]): boolean =>
  a === b || (a.length === b.length && a.every((one, i) => isAlike(one, b[i])))

const isAlike = (a: EndpointStats, b: EndpointStats | undefined): boolean =>
  a.key === b?.key &&
  a.active === b.active &&
  a.failures === b.failures &&
  a.coolingDown === b.coolingDown &&
  a.rttMs === b.rttMs &&
  a.retransmits === b.retransmits
