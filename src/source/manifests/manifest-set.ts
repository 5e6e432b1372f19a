import type { SourceObject, Applied } from '../diff.ts'
import type { Problem } from '../../model/snapshot.ts'
import type { CreatedAt } from '../decode/decode-object.ts'

/** All that some paths held at one moment. */
export interface ManifestSet {
  /** In the order of paths, files and documents. */
  readonly objects: readonly SourceObject[]
  /** Keys of objects that are there and have bad values. */
  readonly refused: ReadonlySet<string>
  /** Everything wrong, that of `unreadable` included. */
  readonly problems: readonly Problem[]
  /** Files that could not be read and documents that could not be parsed: not empty means that the set has holes. */
  readonly unreadable: readonly Problem[]
  /** True when reading once more may help although no file changes. */
  readonly transient: boolean
  /** What is served although a cluster would not have it, an object each. */
  readonly warnings: readonly string[]
  /** What was passed over, each said once: `apps/v1 Deployment is not ...`. */
  readonly skipped: readonly string[]
  /** Files that there were. */
  readonly files: number
  /** Documents that held something. */
  readonly documents: number
}

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
