import { forEachYielding } from '../../util/yielding.ts'

export interface Element {
  /** The set or map that it is in. */
  readonly set: string
  readonly key: string
  /** What a map gives for the key; '' in a set. */
  readonly value: string
}

interface Change {
  gone?: string
  come?: string
}

/** Elements to take out and to put in, of which only true changes reach the kernel. */
export class ElementChanges {
  readonly #sets = new Map<string, Map<string, Change>>()

  gone({ set, key, value }: Element): void {
    this.#change(set, key).gone = value
  }

  come({ set, key, value }: Element): void {
    this.#change(set, key).come = value
  }

  /**
   * The commands for nft, none when nothing changes; some thousand elements in each. What
   * changes its value is taken out and put in again, for nft has no word for it, by the same
   * text; in one transaction no packet sees it gone.
   */
  async texts(table: string): Promise<readonly string[]> {
    const texts: string[] = []
    for (const [set, changes] of this.#sets) {
      const name = `${table} ${set}`
      let lot = new Lot()
      await forEachYielding(changes, ([key, change]) => {
        lot.take(key, change)
        if (lot.size < lotSize) return
        texts.push(lot.text(name))
        lot = new Lot()
      })
      if (lot.size > 0) texts.push(lot.text(name))
    }
    return texts
  }

  /** By how many elements each set grows. */
  *growth(): Iterable<readonly [string, number]> {
    for (const [set, changes] of this.#sets) {
      let growth = 0
      for (const { gone, come } of changes.values()) {
        growth += (come === undefined ? 0 : 1) - (gone === undefined ? 0 : 1)
      }
      yield [set, growth]
    }
  }

  #change(set: string, key: string): Change {
    let changes = this.#sets.get(set)
    if (changes === undefined) this.#sets.set(set, (changes = new Map()))
    let change = changes.get(key)
    if (change === undefined) changes.set(key, (change = {}))
    return change
  }
}

/** A command for each element doubles what nft takes, of time and of memory. */
const lotSize = 1000

/** Changes of one set. */
class Lot {
  readonly #gone: string[] = []
  readonly #come: string[] = []

  get size(): number {
    return this.#gone.length + this.#come.length
  }

  take(key: string, { gone, come }: Change): void {
    if (gone === come) return
    if (gone !== undefined) this.#gone.push(key)
    if (come !== undefined) this.#come.push(come === '' ? key : `${key} : ${come}`)
  }

  /** `set` is `ip usher vips`. */
  text(set: string): string {
    return `${command('delete', set, this.#gone)}${command('add', set, this.#come)}`
  }
}

const command = (verb: string, set: string, elements: readonly string[]): string =>
  elements.length === 0 ? '' : `${verb} element ${set} { ${elements.join(', ')} }\n`
