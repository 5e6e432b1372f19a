import { openFronts } from '../open-fronts.ts'
import {
  bindKey,
  type BindState,
  type ListenerStats,
  type RelayListener,
  type RelayStats,
} from '../relay.ts'
import type { StatsPage } from './messages.ts'
import { addCounters, type PackedListener, unpackListener } from './packed-stats.ts'

/** The figures of one data plane at one time. */
export type StatsSnapshot = Pick<StatsPage, 'listeners' | 'whole'>

/** What a process has reported of a listener, unpacked when it was first read. */
type Unpacked = WeakMap<PackedListener, ListenerStats>

/**
 * The figures that were seen last, over all data planes that there were: totals go on
 * from what a dead one's were at the last read, so that they never go back.
 */
export class LastStats {
  #snapshot: StatsSnapshot | undefined
  #unpacked: Unpacked = new WeakMap()
  /** What there is no process for. */
  #lost: readonly RelayListener[] = []
  /** Counters of data planes that died, as last seen; of listeners that there still are. */
  #base: ReadonlyMap<string, readonly number[]> = new Map()
  #limit: number
  #restarts = 0

  /** `limit`: descriptors a data plane may have, until it reports its own. */
  constructor(limit: number) {
    this.#limit = limit
  }

  seen(snapshot: StatsSnapshot): void {
    this.#snapshot = snapshot
    this.#limit = snapshot.whole.fds.limit
  }

  /** The data plane has died; what it had open is gone. */
  died(wanted: readonly RelayListener[]): void {
    const seen = new Map(this.#snapshot?.listeners.map(one => [one.id, one.counters]))
    const total = totalsOver(this.#base)
    this.#base = new Map(wanted.map(({ id }) => [id, total(id, seen.get(id) ?? [])]))
    this.#restarts += 1
    this.#snapshot = undefined
    this.#unpacked = new WeakMap()
    this.#lost = wanted
  }

  /** As the process itself had them at the last read. */
  seenListeners(): readonly ListenerStats[] {
    return this.#snapshot?.listeners.map(unpackListener) ?? []
  }

  /** Made of the last snapshot, one by one as they are iterated. */
  stats(): RelayStats {
    const fds = { used: 0, limit: this.#limit }
    const whole = this.#snapshot?.whole ?? { fds, acceptPaused: false }
    return { ...whole, listeners: this.#listeners(), restarts: this.#restarts }
  }

  #listeners(): Iterable<ListenerStats> {
    const packed = this.#snapshot?.listeners
    const lost = this.#lost
    // Those of now: a snapshot that is used when its data plane has died is not counted twice.
    const total = totalsOver(this.#base)
    const unpack = (one: PackedListener): ListenerStats =>
      unpackListener({ ...one, counters: total(one.id, one.counters) })
    const unpacked = this.#unpacked
    const known = (one: PackedListener): ListenerStats => {
      const before = unpacked.get(one)
      if (before !== undefined) return before
      const now = unpack(one)
      unpacked.set(one, now)
      return now
    }
    return {
      *[Symbol.iterator]() {
        if (packed === undefined) for (const spec of lost) yield unpack(unserved(spec))
        else for (const one of packed) yield known(one)
      },
    }
  }
}

/** The state of each bind, as the data plane has reported it. */
export class LastBinds {
  readonly #states = new Map<string, readonly [listener: string, state: BindState]>()

  changed(listener: string, state: BindState): void {
    const key = `${listener} ${bindKey(state.bind)}`
    // It is closed on purpose, whatever the process does.
    if (state.state === 'closed') this.#states.delete(key)
    else this.#states.set(key, [listener, state])
  }

  /** The process that held them is gone: those that are lost with it, now being bound. */
  *lost(): Generator<readonly [listener: string, state: BindState]> {
    for (const [key, [listener, { bind, state }]] of this.#states) {
      if (state === 'binding') continue
      const now = [listener, { bind, state: 'binding' }] as const
      this.#states.set(key, now)
      yield now
    }
  }
}

const totalsOver =
  (base: ReadonlyMap<string, readonly number[]>) =>
  (id: string, counters: readonly number[]): readonly number[] =>
    addCounters(base.get(id) ?? [], counters)

/** A listener while no process serves it. */
const unserved = (spec: RelayListener): PackedListener => {
  const { id, name, protocol } = spec
  return {
    id,
    name,
    protocol,
    binds: lostBinds(spec),
    lastError: '',
    wanted: true,
    counters: [],
    endpointKeys: [],
    endpointFigures: [],
  }
}

const lostBinds = (spec: RelayListener): readonly BindState[] => {
  const { open, closed } = openFronts(spec)
  return [...open.map(bind => ({ bind, state: 'binding' }) as const), ...closed]
}
