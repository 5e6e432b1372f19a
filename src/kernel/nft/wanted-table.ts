import { listDiff, forEachYielding } from '../../util/list-diff.ts'
import { type Element, ElementChanges } from '../elements/element-changes.ts'
import { emptiedText, type Part, partsTexts, removeText, SharedParts } from './parts.ts'
import { Uses } from '../elements/uses.ts'
import type { ServicePort } from '../../model/snapshot.ts'

/** All that one ServicePort needs in the table. */
export interface Compiled {
  /** Its own. */
  readonly elements: readonly Element[]
  /** Those that others may need, too. */
  readonly shared: readonly Element[]
  readonly parts: readonly Part[]
}

/** What has to be written for a change, in this order, as one transaction. */
export interface TableChanges {
  /** Chains and sets that are to be there, and what is in them. */
  readonly parts: readonly string[]
  readonly elements: ElementChanges
  /** Takes out chains and sets that nothing has needed for a while; asked by who writes it, once. */
  readonly idle: () => string
}

/** What a table should have, of ServicePorts. */
export class WantedTable {
  readonly #table: string
  readonly #compile: (one: ServicePort) => Compiled
  /** What they need is compiled again when they go: that is cheaper than to keep it. */
  #all: readonly ServicePort[] = []
  /** Elements that several need: each goes with the last of them. */
  readonly #shared = new Uses()
  readonly #parts = new SharedParts()

  /** `table` is as in `ip usher-services`; `compile` is pure: the same for the same. */
  constructor(table: string, compile: (one: ServicePort) => Compiled) {
    this.#table = table
    this.#compile = compile
  }

  /** One that an earlier process has left; it goes unless it is needed. */
  found(kind: Part['kind'], name: string, now: number): void {
    this.#parts.found(kind, name, now)
  }

  /** Takes all rules out of what was found and is not needed. */
  emptied(): string {
    return emptiedText(this.#table, this.#parts.unneeded())
  }

  /** Turns to another list; costs what changed, by `===`. */
  async take(all: readonly ServicePort[], now: number): Promise<TableChanges> {
    const { before: gone, after: come } = listDiff(this.#all, all)
    this.#all = all
    const elements = new ElementChanges()
    // First, so that what both need stays.
    await forEachYielding(come, one => {
      const needed = this.#compile(one)
      for (const element of needed.elements) elements.come(element)
      for (const element of needed.shared)
        if (this.#shared.add(idOf(element))) elements.come(element)
      for (const part of needed.parts) this.#parts.enter(part)
    })
    await forEachYielding(gone, one => {
      const needed = this.#compile(one)
      for (const element of needed.elements) elements.gone(element)
      for (const element of needed.shared)
        if (this.#shared.remove(idOf(element))) elements.gone(element)
      for (const part of needed.parts) this.#parts.leave(part, now)
    })
    const parts = partsTexts(this.#table, this.#parts.takeFresh())
    const idle = (): string => removeText(this.#table, this.#parts.takeIdle(now))
    return { parts, elements, idle }
  }
}

const idOf = ({ set, key }: Element): string => `${set} ${key}`
