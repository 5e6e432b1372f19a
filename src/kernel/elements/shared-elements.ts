import type { Element, ElementChanges } from './element-changes.ts'

/** Elements that several Services may need, each with by how many: it goes with the last of them. */
export class SharedElements {
  readonly #uses = new Map<string, number>()

  enter(element: Element, changes: ElementChanges): void {
    const id = idOf(element)
    const uses = this.#uses.get(id) ?? 0
    this.#uses.set(id, uses + 1)
    if (uses === 0) changes.come(element)
  }

  leave(element: Element, changes: ElementChanges): void {
    const id = idOf(element)
    const uses = (this.#uses.get(id) ?? 0) - 1
    if (uses > 0) this.#uses.set(id, uses)
    else {
      this.#uses.delete(id)
      changes.gone(element)
    }
  }
}

const idOf = ({ set, key }: Element): string => `${set} ${key}`
