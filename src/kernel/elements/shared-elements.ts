import type { Element, ElementChanges } from './element-changes.ts'
import { Uses } from './uses.ts'

/** Elements that several Services may need: each goes with the last of them. */
export class SharedElements {
  readonly #uses = new Uses()

  enter(element: Element, changes: ElementChanges): void {
    if (this.#uses.add(idOf(element))) changes.come(element)
  }

  leave(element: Element, changes: ElementChanges): void {
    if (this.#uses.remove(idOf(element))) changes.gone(element)
  }
}

const idOf = ({ set, key }: Element): string => `${set} ${key}`
