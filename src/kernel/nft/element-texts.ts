import type { Change, ElementChanges } from '../elements/element-changes.ts'
import { forEachYielding } from '../../util/list-diff.ts'

/**
 * The commands for nft, none when nothing changes; some thousand elements in each. What
 * changes its value is taken out and put in again, for nft has no word for it, by the same
 * text; in one transaction no packet sees it gone.
 */
export const elementTexts = async (
  table: string,
  { sets }: ElementChanges,
): Promise<readonly string[]> => {
  const texts: string[] = []
  for (const [set, changes] of sets) {
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
