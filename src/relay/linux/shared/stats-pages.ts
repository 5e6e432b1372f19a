/** The figures of one of a listener's endpoints; those of listeners: `counterCell`. */
export const endpointCell = {
  active: 0,
  failures: 1,
  /** Monotonic milliseconds until which others are preferred; see `Balancer.failed`. */
  restingUntil: 2,
  /** Smoothed round-trip time in microseconds as the kernel last gave it; 0: not yet. */
  rttUs: 3,
  /** Segments sent again on the connections that were asked. */
  retransmits: 4,
  count: 5,
} as const

/** Listeners, or endpoints, in one page of memory. */
const slotsPerPage = 1024

/**
 * Figures by slot in pages of shared memory: one thread writes, others read. 64-bit floats
 * that are aligned are never read half-written on the platforms of struct-layout.ts.
 */
export class StatsPages {
  readonly #cellsPerSlot: number
  readonly #pages: Float64Array[] = []

  constructor(cellsPerSlot: number) {
    this.#cellsPerSlot = cellsPerSlot
  }

  get pages(): readonly SharedArrayBuffer[] {
    return this.#pages.map(page => page.buffer as SharedArrayBuffer)
  }

  /** Makes room for `slot`; the new pages, which others must be given before they use it. */
  ensure(slot: number): readonly SharedArrayBuffer[] {
    const added: SharedArrayBuffer[] = []
    while (this.#pages.length * slotsPerPage <= slot) {
      const page = new SharedArrayBuffer(slotsPerPage * this.#cellsPerSlot * 8)
      this.take(page)
      added.push(page)
    }
    return added
  }

  /** The next page, made by the main thread. */
  take(page: SharedArrayBuffer): void {
    this.#pages.push(new Float64Array(page))
  }

  /** The page of a slot, which there must be. */
  pageOf(slot: number): Float64Array {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]
    if (page === undefined) throw new Error(`no page of figures for slot ${slot}`)
    return page
  }

  /** Where the figures of a slot begin in its page. */
  offsetOf(slot: number): number {
    return (slot % slotsPerPage) * this.#cellsPerSlot
  }

  /** One figure; 0 for a slot that has no page. */
  read(slot: number, cell: number): number {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]
    return page?.[this.offsetOf(slot) + cell] ?? 0
  }

  write(slot: number, cell: number, value: number): void {
    this.pageOf(slot)[this.offsetOf(slot) + cell] = value
  }

  /** Sets all figures of a slot to zero, for its next user. */
  clear(slot: number): void {
    const start = this.offsetOf(slot)
    this.pageOf(slot).fill(0, start, start + this.#cellsPerSlot)
  }
}
