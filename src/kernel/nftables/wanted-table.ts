import { listOfServicePorts } from '../../model/service-port-list.ts'
import type { ServicePort, Snapshot } from '../../model/snapshot.ts'
import { listDiff } from '../../util/list-diff.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { ElementChanges } from '../elements/element-changes.ts'
import { SharedElements } from '../elements/shared-elements.ts'
import {
  emptiedText,
  partsTexts,
  removeText,
  SharedParts,
  type Part,
} from '../nft/parts.ts'
import { compile, type Compiled } from './compile.ts'
import type { Context } from './context.ts'

/** What has to be written for a change, in this order, as one transaction. */
export interface TableChanges {
  /** Chains and sets that are to be there, and what is in them. */
  readonly parts: readonly string[]
  readonly elements: ElementChanges
  /** Takes out chains and sets that nothing has needed for a while; asked by who writes it, once. */
  readonly idle: () => string
}

/** What a table should have, kept up from snapshot to snapshot. */
export class WantedTable {
  readonly #table: string
  readonly #context: Context
  /** What they need is compiled again when they go: that is cheaper than to keep it. */
  #served: readonly ServicePort[] = []
  readonly #shared = new SharedElements()
  readonly #parts = new SharedParts()

  /** `table` is `ip usher-services`. */
  constructor(table: string, context: Context) {
    this.#table = table
    this.#context = context
  }

  /** One that an earlier process has left; it goes unless a Service needs it. */
  found(kind: Part['kind'], name: string, now: number): void {
    this.#parts.found(kind, name, now)
  }

  /** Takes all rules out of what was found and is not needed. */
  emptied(): string {
    return emptiedText(this.#table, this.#parts.unneeded())
  }

  /** Gives what is different now; costs what changed, by `===` of ServicePorts. */
  async take(snapshot: Snapshot, now: number): Promise<TableChanges> {
    const elements = new ElementChanges()
    const served = listOfServicePorts(snapshot)
    const { before, after } = listDiff(this.#served, served)
    // First, so that what both need stays.
    await forEachYielding(after, one => {
      this.#enter(compile(one, this.#context), elements)
    })
    await forEachYielding(before, one => {
      this.#leave(compile(one, this.#context), elements, now)
    })
    this.#served = served
    const parts = partsTexts(this.#table, this.#parts.takeFresh())
    const idle = (): string => removeText(this.#table, this.#parts.takeIdle(now))
    return { parts, elements, idle }
  }

  #enter({ elements, shared, parts }: Compiled, changes: ElementChanges): void {
    for (const element of elements) changes.come(element)
    for (const element of shared) this.#shared.enter(element, changes)
    for (const part of parts) this.#parts.enter(part)
  }

  #leave(
    { elements, shared, parts }: Compiled,
    changes: ElementChanges,
    now: number,
  ): void {
    for (const element of elements) changes.gone(element)
    for (const element of shared) this.#shared.leave(element, changes)
    for (const part of parts) this.#parts.leave(part, now)
  }
}
