import { countersOf } from '../../counters.ts'
import type { EndpointStats, ListenerStats } from '../../relay.ts'

/** What there is to say of a port that is not counted. */
type Said = Omit<ListenerStats, 'counters' | 'endpoints'>

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
  /** An endpoint has a connection, or rests. */
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
    said: Said,
    readEndpoints: () => readonly EndpointStats[],
  ): ListenerStats {
    const last = this.#stats
    const isCounted = last === undefined || !areSame(this.#cells, cells)
    if (isCounted) {
      this.#cells = withoutZeros(cells)
      this.changed()
    }
    const endpoints = isCounted || this.#mayMove(last) ? readEndpoints() : last.endpoints
    if (!isCounted && isSaid(last, said) && areAlike(last.endpoints, endpoints))
      return last
    const counters = isCounted ? countersOf(cell => cells[cell] ?? 0) : last.counters
    this.#isUsed = endpoints.some(({ active, resting }) => active > 0 || resting)
    this.#stats = { ...said, counters, endpoints }
    return this.#stats
  }

  /** Whether an endpoint's figures may have changed where the port's have not. */
  #mayMove({ counters }: ListenerStats): boolean {
    return this.#isUsed || counters.active > 0 || this.#now() < this.#changedAt + settleMs
  }
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

/** The state of a bind is another object when it changes. */
const isSaid = (last: Said, said: Said): boolean =>
  last.id === said.id &&
  last.name === said.name &&
  last.protocol === said.protocol &&
  last.lastError === said.lastError &&
  last.wanted === said.wanted &&
  last.binds.length === said.binds.length &&
  last.binds.every((state, i) => state === said.binds[i])

const areAlike = (a: readonly EndpointStats[], b: readonly EndpointStats[]): boolean =>
  a === b || (a.length === b.length && a.every((one, i) => isAlike(one, b[i])))

const isAlike = (a: EndpointStats, b: EndpointStats | undefined): boolean =>
  a.key === b?.key &&
  a.active === b.active &&
  a.failures === b.failures &&
  a.resting === b.resting &&
  a.rttMs === b.rttMs &&
  a.retransmits === b.retransmits
