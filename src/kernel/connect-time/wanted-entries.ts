import { joinLists, listOfServicePorts } from '../../model/service-port-list.ts'
import type { ServicePort, Snapshot } from '../../model/snapshot.ts'
import { listDiff } from '../../util/list-diff.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { ElementChanges } from '../elements/element-changes.ts'
import { compile, type Entry } from './tables.ts'
import { type WrittenTable, writtenTables } from './tables.ts'

/** How many elements of each table may be wanted at once. */
export type Capacity = Readonly<Record<'members' | 'slots' | 'services', number>>

export interface EntryChanges {
  readonly changes: ElementChanges
  /** Those for which there is no room; the proxy mode carries their clients. */
  readonly left: readonly ServicePort[]
}

/** What the tables should have, kept up from snapshot to snapshot. */
export class WantedEntries {
  readonly #capacity: Capacity
  readonly #sizes = Object.fromEntries(writtenTables.map(name => [name, 0])) as Record<
    WrittenTable,
    number
  >
  #others: readonly Entry[] = []
  #entered: readonly ServicePort[] = []

  constructor(capacity: Capacity) {
    this.#capacity = capacity
  }

  /**
   * Gives what is different now; costs what changed, by `===` of ServicePorts.
   * @param others - all that are of no ServicePort
   */
  async take(
    snapshots: readonly Snapshot[],
    others: readonly Entry[],
  ): Promise<EntryChanges> {
    const changes = new ElementChanges()
    for (const one of this.#others) changes.gone(one)
    for (const one of others) changes.come(one)
    this.#others = others
    const all = joinLists(snapshots.map(listOfServicePorts))
    const { before, after } = listDiff(this.#entered, all)
    await forEachYielding(before, one => {
      const elements = compile(one)
      for (const each of elements) changes.gone(each)
      this.#count(elements, -1)
    })
    const left = new Set<ServicePort>()
    await forEachYielding(after, one => {
      const elements = compile(one)
      this.#count(elements, 1)
      if (this.#isFull()) {
        this.#count(elements, -1)
        left.add(one)
      } else for (const each of elements) changes.come(each)
    })
    this.#entered = left.size === 0 ? all : all.filter(one => !left.has(one))
    return { changes, left: [...left] }
  }

  #count(elements: readonly Entry[], by: 1 | -1): void {
    for (const { set } of elements) this.#sizes[set] += by
  }

  #isFull(): boolean {
    const { members, slots, services } = this.#sizes
    const most = this.#capacity
    return members > most.members || slots > most.slots || services > most.services
  }
}
