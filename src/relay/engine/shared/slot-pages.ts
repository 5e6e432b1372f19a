/** Small numbers that are given out, the ones given back first. */
export class Slots {
  readonly #free: number[] = []
  #count = 0

  take(): number {
    const free = this.#free.pop()
    if (free !== undefined) return free
    this.#count += 1
    return this.#count - 1
  }

  free(slot: number): void {
    this.#free.push(slot)
  }

  /** How many there have ever been: all numbers below have been given out. */
  get count(): number {
    return this.#count
  }
}

/** Listeners, or endpoints, in one page of memory. */
const slotsPerPage = 1024

/** Cells of 64 bits by slot, in pages of shared memory that the main thread makes. */
export class SlotPages<Page extends { readonly buffer: ArrayBufferLike }> {
  readonly #cellsPerSlot: number
  readonly #view: (memory: SharedArrayBuffer) => Page
  readonly #pages: Page[] = []

  constructor(cellsPerSlot: number, view: (memory: SharedArrayBuffer) => Page) {
    this.#cellsPerSlot = cellsPerSlot
    this.#view = view
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
    this.#pages.push(this.#view(page))
  }

  /** The page of a slot, which there must be. */
  pageOf(slot: number): Page {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]
    if (page === undefined) throw new Error(`no page of memory for slot ${slot}`)
    return page
  }

  /** Where the cells of a slot begin in its page. */
  offsetOf(slot: number): number {
    return (slot % slotsPerPage) * this.#cellsPerSlot
  }

  /** Whether there is a page for it. */
  has(slot: number): boolean {
    return slot < this.#pages.length * slotsPerPage
  }
}
