import { History } from './history.ts'
import { countsPerRow, type Events, type Head, type RowText, type Tick } from './wire.ts'

/** A Service as it is known here, with what is made of its counts. */
export interface Row {
  name: string
  protocol: string
  family: string
  vips: string
  state: RowText[5]
  why: string
  usable: number
  all: number
  missing: number
  /** In lower case, all that a filter looks at. */
  searchable: string
  active: number
  /** A second, since the look before. */
  rates: Rates
  /** `Tick.at` of the last look that found failures; undefined when none has. */
  failedAt: number | undefined
  /** There since it had connections. */
  history: History | undefined
}

export interface Rates {
  readonly accepted: number
  readonly failed: number
  readonly retries: number
  readonly toBackend: number
  readonly toClient: number
}

type Counts = readonly number[]

const idle: Rates = { accepted: 0, failed: 0, retries: 0, toBackend: 0, toClient: 0 }

/** Applies what `/stream` sends. */
export class Store {
  head: Head | undefined
  tick: Tick | undefined
  /** Looks so far. */
  looks = 0
  readonly #rows = new Map<number, Row>()
  /** As of the last look. */
  readonly #counts = new Map<Row, Counts>()
  readonly #fresh = new Map<Row, Counts>()
  readonly #moving = new Set<Row>()
  /** What was known before the connection broke, by name: its past is still true. */
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
    for (const [index, ...parts] of texts) {
      const [name, protocol, family, vips, state, why, usable, all, missing] = parts
      const searchable = [name, protocol, vips, state, why].join(' ').toLowerCase()
      const shown = { vips, state, why, usable, all, missing, searchable }
      const text = { name, protocol, family, ...shown }
      const row = this.#rowAt(index, text)
      // It was until now, too: as endpoints come back from a rest and fail again, the row stays.
      if (state === 'failing' || row.state === 'failing') row.failedAt = this.tick?.at
      Object.assign(row, text)
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

  /** A look is complete. */
  setTick(tick: Tick): void {
    const seconds = (tick.at - (this.tick?.at ?? tick.at)) / 1000
    this.tick = tick
    this.looks += 1
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
    if (rates.failed > 0) row.failedAt = this.tick?.at
    const moves = Object.values(rates).some(rate => rate > 0)
    this.#moving[moves ? 'add' : 'delete'](row)
    if (rates.accepted > 0 || rates.failed > 0) row.history ??= new History(this.looks)
    row.history?.put(this.looks, rates.accepted, rates.failed)
  }

  /** The row of this number, new if it belongs to another Service by now. */
  #rowAt(index: number, text: Pick<Row, 'name' | 'protocol' | 'family'>): Row {
    const known = this.#rows.get(index)
    if (known !== undefined && identity(known) === identity(text)) return known
    this.#forget(index)
    const row = this.#before.get(identity(text)) ?? ({ ...nothing } as Row)
    row.rates = idle
    row.failedAt = undefined
    this.#rows.set(index, row)
    return row
  }

  #forget(index: number): void {
    const row = this.#rows.get(index)
    if (row === undefined) return
    this.#rows.delete(index)
    for (const known of [this.#counts, this.#fresh, this.#moving]) known.delete(row)
  }
}

const nothing = { active: 0, history: undefined }

export const identity = (row: Pick<Row, 'name' | 'protocol' | 'family'>): string =>
  `${row.name} ${row.protocol} ${row.family}`

/** A data plane that was started again counts from 0. */
const ratesOf = (before: Counts, now: Counts, seconds: number): Rates => {
  const rate = (i: number): number =>
    seconds > 0 ? Math.max(0, (now[i] ?? 0) - (before[i] ?? 0)) / seconds : 0
  return {
    accepted: rate(1),
    failed: rate(2),
    retries: rate(3),
    toBackend: rate(4),
    toClient: rate(5),
  }
}
