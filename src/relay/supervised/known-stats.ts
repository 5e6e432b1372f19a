import { openFronts } from '../open-fronts.ts'
import {
  type BindState,
  dialBuckets,
  type ListenerStats,
  type RelayListener,
  type RelayStats,
} from '../relay.ts'
import type { StatsPage } from './messages.ts'
import {
  addTotals,
  type PackedListener,
  type PackedTotals,
  unpackListener,
} from './packed-stats.ts'

/** The figures of one data plane at one time. */
export type Look = Pick<StatsPage, 'listeners' | 'whole'>

/**
 * The figures that were seen last, over all data planes that there were: totals go on
 * from what a dead one's were at the last look, so that they never go back.
 */
export class KnownStats {
  #look: Look | undefined
  /** What there is no process for. */
  #lost: readonly RelayListener[] = []
  /** Totals of data planes that died, as last seen; of listeners that there still are. */
  #base: ReadonlyMap<string, PackedTotals> = new Map()
  #limit: number
  #restarts = 0

  /** `limit`: descriptors a data plane may have, until it says so itself. */
  constructor(limit: number) {
    this.#limit = limit
  }

  seen(look: Look): void {
    this.#look = look
    this.#limit = look.whole.fds.limit
  }

  /** The data plane has died; what it had open is gone. */
  died(wanted: readonly RelayListener[]): void {
    const seen = new Map(this.#look?.listeners.map(one => [one.id, one.totals]))
    const base = new Map<string, PackedTotals>()
    for (const { id } of wanted) {
      const now = seen.get(id)
      const before = this.#base.get(id)
      const totals = now === undefined ? before : addTotals(before, now)
      if (totals !== undefined) base.set(id, totals)
    }
    this.#base = base
    this.#restarts += 1
    this.#look = undefined
    this.#lost = wanted
  }

  /** Made of the last look, one by one as they are asked for. */
  stats(): RelayStats {
    const fds = { used: 0, limit: this.#limit }
    const { listeners, whole } = this.#look ?? {
      listeners: lostListeners(this.#lost),
      whole: { fds, acceptPaused: false },
    }
    const restarts = this.#restarts
    return { ...whole, listeners: unpacked(listeners, this.#base), restarts }
  }
}

const unpacked = (
  listeners: Iterable<PackedListener>,
  base: ReadonlyMap<string, PackedTotals>,
): Iterable<ListenerStats> => ({
  *[Symbol.iterator]() {
    for (const one of listeners) {
      const totals = addTotals(base.get(one.id), one.totals)
      yield unpackListener({ ...one, totals }, dialBuckets.length + 1)
    }
  },
})

const nothing: PackedTotals = { numbers: [], failed: {}, dropped: {} }

/** Listeners while no process serves them. */
const lostListeners = (wanted: readonly RelayListener[]): Iterable<PackedListener> => ({
  *[Symbol.iterator]() {
    for (const spec of wanted) {
      const { id, name, protocol, endpoints } = spec
      yield {
        id,
        name,
        protocol,
        binds: lostBinds(spec),
        lastError: '',
        wanted: true,
        endpointKeys: endpoints.map(({ key }) => key),
        endpointFigures: [],
        active: 0,
        totals: nothing,
      }
    }
  },
})

const lostBinds = (spec: RelayListener): readonly BindState[] => {
  const { open, closed } = openFronts(spec)
  return [...open.map(bind => ({ bind, state: 'binding' }) as const), ...closed]
}
