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
   * The commands for nft, '' when nothing changes. What changes its value is taken out
   * and put in again, for nft has no word for it; in one transaction no packet sees it gone.
   */
  async text(table: string): Promise<string> {
    const commands: string[] = []
    // All that goes first, so that nothing that comes is there already.
    for (const verb of ['delete', 'add'] as const) {
      for (const [set, changes] of this.#sets) {
        const list = await elementList(changes, verb)
        if (list !== '') commands.push(`${verb} element ${table} ${set} {${list} }\n`)
      }
    }
    return commands.join('')
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

const elementList = async (
  changes: ReadonlyMap<string, Change>,
  verb: 'delete' | 'add',
): Promise<string> => {
  const parts: string[] = []
  await forEachYielding(changes, ([key, { gone, come }]) => {
    if (gone === come || (verb === 'delete' ? gone : come) === undefined) return
    const value = verb === 'delete' || come === '' ? '' : ` : ${come}`
    parts.push(`\n\t${key}${value}`)
  })
  return parts.join(',')
}
