import { openFronts } from '../open-fronts.ts'
import {
  bindKey,
  type BindState,
  type ListenerStats,
  type RelayListener,
  type RelayStats,
} from '../relay.ts'
import type { StatsPage, WholeStats } from './messages.ts'
import { addCounters, type PackedListener, unpackListener } from './packed-stats.ts'

/**
 * The figures that were read last, over all data planes that there were: totals go on
 * from what a dead one's were at the last read, so that they never go back.
 */
export class LastStats {
  /** By id; the same object as long as nothing has changed. */
  readonly #listeners = new Map<string, ListenerStats>()
  /** Their totals, by `counterCell`. */
  #totals = new Map<string, readonly number[]>()
  /** Of these the data plane that there is now has reported nothing yet. */
  #unreported: ReadonlyMap<string, RelayListener> = new Map()
  /** Totals when the last data plane died; of listeners that were wanted then. */
  #base: ReadonlyMap<string, readonly number[]> = new Map()
  #whole: WholeStats
  #restarts = 0

  /** `limit`: descriptors a data plane may have, until it reports its own. */
  constructor(limit: number) {
    this.#whole = unusedOf(limit)
  }

  /** What has changed in the data plane that there is now; a read that is given up leaves a part of it. */
  read({ listeners, gone, last, whole }: StatsPage): void {
    for (const packed of listeners) {
      const { id } = packed
      const counters = addCounters(this.#base.get(id) ?? [], packed.counters)
      this.#totals.set(id, counters)
      this.#listeners.set(id, unpackListener({ ...packed, counters }))
    }
    for (const id of gone) {
      this.#listeners.delete(id)
      this.#totals.delete(id)
    }
    if (last) this.#unreported = new Map()
    this.#whole = whole
  }

  /** The data plane has died; what it had open is gone. */
  died(wanted: readonly RelayListener[]): void {
    const before = this.#totals
    const base = this.#base
    this.#base = new Map(
      wanted.map(({ id }) => [id, addCounters(before.get(id) ?? base.get(id) ?? [], [])]),
    )
    this.#unreported = new Map(wanted.map(spec => [spec.id, spec]))
    this.#listeners.clear()
    this.#totals = new Map()
    this.#whole = unusedOf(this.#whole.fds.limit)
    this.#restarts += 1
  }

  /** Undefined where the data plane has reported nothing of it. */
  countersOf(id: string): ListenerStats['counters'] | undefined {
    return this.#listeners.get(id)?.counters
  }

  /** Those of now, whatever follows. */
  stats(): RelayStats {
    const reported = [...this.#listeners.values()]
    const [base, unreported] = [this.#base, this.#unreported]
    const listeners = {
      *[Symbol.iterator]() {
        yield* reported
        const ids =
          unreported.size === 0 ? undefined : new Set(reported.map(({ id }) => id))
        for (const [id, spec] of unreported)
          if (ids?.has(id) === false)
            yield unpackListener({ ...unserved(spec), counters: base.get(id) ?? [] })
      },
    }
    return { ...this.#whole, listeners, restarts: this.#restarts }
  }
}

const unusedOf = (limit: number): WholeStats => ({
  fds: { used: 0, limit },
  acceptPaused: false,
})

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

/** A listener while no process serves it. */
const unserved = (spec: RelayListener): PackedListener => {
  const { id, name, protocol } = spec
  return {
    id,
    name,
    protocol,
    binds: lostBinds(spec),
    lastError: '',
    failing: false,
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
