import type { SourceObject, Applied } from '../diff.ts'
import type { Problem } from '../../model/snapshot.ts'
import { undated } from '../decode/service.ts'
import type { Change } from '../../model/service.ts'

/** All that some paths held at one moment. */
export interface ManifestSet {
  /** In the order of paths, files and documents. */
  readonly objects: readonly SourceObject[]
  /** Keys of objects that are there and of which nothing could be read: earlier versions stand. */
  readonly refused: ReadonlySet<string>
  /** Everything wrong, that of `unreadable` included. */
  readonly problems: readonly Problem[]
  /** Files that could not be read and documents that could not be parsed: not empty means that the set has holes. */
  readonly unreadable: readonly Problem[]
  /** True when reading once more may help although no file changes. */
  readonly transient: boolean
  /** What is served although a cluster would refuse it, an object each. */
  readonly warnings: readonly string[]
  /** What was skipped, each once: `apps/v1 Deployment is not ...`. */
  readonly skipped: readonly string[]
  /** Files that there were. */
  readonly files: number
  /** Documents that held something. */
  readonly documents: number
}

/** Numbers Services without a creation time in the order in which they were first seen, across reads. */
export class FirstSight {
  readonly #numbers = new Map<string, number>()
  #last = 0

  numbered({ key, changes }: SourceObject): SourceObject {
    return { key, changes: changes.map(change => this.#numbered(key, change)) }
  }

  /** Forgets Services that are gone: one that comes back is new. */
  keepOnly(objects: Applied): void {
    for (const key of this.#numbers.keys())
      if (!objects.has(key)) this.#numbers.delete(key)
  }

  #numbered(key: string, change: Change): Change {
    if (change.kind !== 'Service' || change.object?.createdAt !== undated) return change
    const createdAt = this.#numbers.get(key) ?? ++this.#last
    this.#numbers.set(key, createdAt)
    return { ...change, object: { ...change.object, createdAt } }
  }
}
