import { SlotPages } from './slot-pages.ts'

/** The figures of one of a listener's endpoints; those of listeners: `counterCell`. */
export const endpointCell = {
  active: 0,
  failures: 1,
  /** Smoothed round-trip time in microseconds as the kernel last gave it; 0: not yet. */
  rttUs: 2,
  /** Segments sent again on the connections that were asked. */
  retransmits: 3,
  count: 4,
} as const

/**
 * Figures by slot: one thread writes, others read. 64-bit floats that are aligned are never
 * read half-written on the platforms of struct-layout.ts.
 */
export class StatsPages extends SlotPages<Float64Array> {
  readonly #cellsPerSlot: number

  constructor(cellsPerSlot: number) {
    super(cellsPerSlot, memory => new Float64Array(memory))
    this.#cellsPerSlot = cellsPerSlot
  }

  /** One figure; 0 for a slot that has no page. */
  read(slot: number, cell: number): number {
    if (!this.has(slot)) return 0
    return this.pageOf(slot)[this.offsetOf(slot) + cell] ?? 0
  }

  /** Adds all figures of a slot to `sums`. */
  addTo(sums: Float64Array, slot: number): void {
    if (!this.has(slot)) return
    const page = this.pageOf(slot)
    const start = this.offsetOf(slot)
    for (let cell = 0; cell < this.#cellsPerSlot; cell += 1)
      sums[cell] = (sums[cell] ?? 0) + (page[start + cell] ?? 0)
  }

  write(slot: number, cell: number, value: number): void {
    this.pageOf(slot)[this.offsetOf(slot) + cell] = value
  }

  /** Sets all figures of a slot to zero, for its next user. */
  clear(slot: number): void {
    if (!this.has(slot)) return
    const start = this.offsetOf(slot)
    this.pageOf(slot).fill(0, start, start + this.#cellsPerSlot)
  }
}
