import { type Counts, identity, type Rates, ratesOf } from './service-words.ts'
import { countsPerRow, type Events, type Head, type ShownRow, type Tick } from './wire.ts'

/** A Service as it is known here, with what is made of its counts. */
export interface Row extends ShownRow {
  /** In lower case, all that a filter looks at. */
  searchable: string
  active: number
  /** A second, since the look before. */
  rates: Rates
  /** As `Events.past`. */
  past: readonly number[]
}

const none: Counts = []
const idle = ratesOf(none, none, 1)

/** Applies what `/stream` sends. */
export class Store {
  head: Head | undefined
  tick: Tick | undefined
  readonly #rows = new Map<number, Row>()
  /** As of the last look. */
  readonly #counts = new Map<Row, Counts>()
  readonly #fresh = new Map<Row, Counts>()
  readonly #moving = new Set<Row>()
  /** What was known before the connection broke, by name: what is opened or chosen stays the same object. */
  #before = new Map<string, Row>()

  get rows(): readonly Row[] {
    return [...this.#rows.values()]
  }

  begin(): void {
    this.#before = new Map(this.rows.map(row => [identity(row), row]))
    this.#rows.clear()
    this.#counts.clear()
    this.#fresh.clear()
    this.#moving.clear()
    this.tick = undefined
  }

  setRows(texts: Events['rows']): void {
    for (const [number, shown] of texts) {
      const { servicePort, protocol, addresses, state, reason } = shown
      const searchable = [servicePort, protocol, addresses, state, reason]
        .join(' ')
        .toLowerCase()
      const row = this.#rowAt(number, shown)
      Object.assign(row, shown, { searchable })
    }
  }

  remove(gone: Events['gone']): void {
    for (const index of gone) this.#forget(index)
  }

  setCounts(all: Events['counts']): void {
    for (let i = 0; i < all.length; i += countsPerRow) {
      const row = this.#rows.get(all[i] ?? -1)
      if (row !== undefined) this.#fresh.set(row, all.slice(i + 1, i + countsPerRow))
    }
  }

  setPast(all: Events['past']): void {
    for (const [number, rates] of all) {
      const row = this.#rows.get(number)
      if (row !== undefined) row.past = rates
    }
  }

  /** A look is complete. */
  setTick(tick: Tick): void {
    const seconds = (tick.at - (this.tick?.at ?? tick.at)) / 1000
    this.tick = tick
    this.#before.clear()
    for (const row of this.#moving) if (!this.#fresh.has(row)) this.#move(row, idle)
    for (const [row, counts] of this.#fresh) {
      row.active = counts[0] ?? 0
      const before = this.#counts.get(row)
      if (before !== undefined) this.#move(row, ratesOf(before, counts, seconds))
      this.#counts.set(row, counts)
    }
    this.#fresh.clear()
  }

  #move(row: Row, rates: Rates): void {
    row.rates = rates
    const moves = Object.values(rates).some(rate => rate > 0)
    this.#moving[moves ? 'add' : 'delete'](row)
  }

  /** The row of this number, new if it belongs to another Service by now. */
  #rowAt(number: number, shown: ShownRow): Row {
    const known = this.#rows.get(number)
    if (known !== undefined && identity(known) === identity(shown)) return known
    this.#forget(number)
    const row = this.#before.get(identity(shown)) ?? ({ ...nothing } as Row)
    row.rates = idle
    row.past = []
    this.#rows.set(number, row)
    return row
  }

  #forget(index: number): void {
    const row = this.#rows.get(index)
    if (row === undefined) return
    this.#rows.delete(index)
    for (const known of [this.#counts, this.#fresh, this.#moving]) known.delete(row)
  }
}

const nothing = { active: 0 }
