import type { CreatedAt } from '../decode/decoded.ts'
import type { Applied } from './diff.ts'

/** Numbers Services in the order in which they were first seen, across reads. */
export class FirstSight {
  readonly #numbers = new Map<string, number>()
  #last = 0

  readonly createdAt: CreatedAt = (namespace, name) => {
    const key = `Service ${namespace}/${name}`
    let number = this.#numbers.get(key)
    if (number === undefined) this.#numbers.set(key, (number = ++this.#last))
    return number
  }

  /** Forgets Services that are gone: one that comes back is new. */
  keepOnly(objects: Applied): void {
    for (const key of this.#numbers.keys())
      if (!objects.has(key)) this.#numbers.delete(key)
  }
}
