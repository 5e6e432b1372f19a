import type { Stored } from './stored.ts'

const kept = 16

/** The lists made last: pages and other clients ask for them again. */
export class RecentLists {
  readonly #lists = new Map<string, readonly Stored[]>()

  get(id: string, make: () => readonly Stored[]): readonly Stored[] {
    let list = this.#lists.get(id)
    if (list === undefined) {
      list = make()
      const [oldest] = this.#lists.keys()
      if (this.#lists.size >= kept && oldest !== undefined) this.#lists.delete(oldest)
      this.#lists.set(id, list)
    }
    return list
  }

  clear(): void {
    this.#lists.clear()
  }
}
