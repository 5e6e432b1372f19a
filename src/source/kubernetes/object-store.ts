import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { pacer } from '../../util/list-diff.ts'
import type { Collection } from './collection.ts'
import {
  isOlder,
  difference,
  identityOf,
  storedObject,
  withLastGood,
  type StoredObject,
} from './stored-object.ts'

export interface StoreSink {
  apply(changes: readonly Change[]): void
  /** The objects that are refused are others than before. */
  problemsChanged(): void
}

/** Deleted objects whose resourceVersion is remembered, against late events. */
const mostTombstones = 1000
/** Changes in one call of `apply`; more take several, with turns of the event loop between. */
const mostAtOnce = 1000

/**
 * The objects of one collection as the server last sent them, reduced to what is used, and
 * the changes that follow from what it sends next.
 */
export class ObjectStore {
  readonly #sink: StoreSink | undefined
  #objects = new Map<string, StoredObject>()
  readonly #tombstones = new Map<string, string>()
  #problems = new Map<string, readonly Problem[]>()
  #pending: Change[] = []
  #problemsMoved = false

  /** Without a sink it only gathers, for `replace` of another. */
  constructor(sink?: StoreSink) {
    this.#sink = sink
  }

  get size(): number {
    return this.#objects.size
  }

  /** The object that changed last. */
  newest(): StoredObject | undefined {
    let newest: StoredObject | undefined
    for (const object of this.#objects.values())
      if (newest === undefined || isOlder(newest.resourceVersion, object.resourceVersion))
        newest = object
    return newest
  }

  problems(): Problem[] {
    return [...this.#problems.values()].flat()
  }

  /**
   * ADDED or MODIFIED. A watch sends each object's versions in order; an event that is not
   * newer than what is known of the object (KEP-5504) comes twice or too late, and is ignored.
   * An unknown object did not exist at version `since`. Gives whether it was news.
   */
  upsert(raw: unknown, collection: Collection, since = ''): boolean {
    const { key, resourceVersion } = identityOf(raw, collection)
    const known =
      this.#objects.get(key)?.resourceVersion ?? this.#tombstones.get(key) ?? since
    if (resourceVersion === known || isOlder(resourceVersion, known)) return false
    const before = this.#objects.get(key)
    const after = withLastGood(storedObject(raw, collection), before)
    this.#tombstones.delete(key)
    this.#objects.set(key, after)
    this.#note(before, after)
    return true
  }

  /**
   * DELETED: its version is that of the deletion, or of the object's last state. Gives whether
   * it was news.
   */
  remove(raw: unknown, collection: Collection): boolean {
    const { key, resourceVersion } = identityOf(raw, collection)
    const before = this.#objects.get(key)
    const known = before?.resourceVersion ?? this.#tombstones.get(key) ?? ''
    if (isOlder(resourceVersion, known)) return false
    this.#bury(key, resourceVersion)
    if (before === undefined) return false
    this.#objects.delete(key)
    this.#note(before, undefined)
    return true
  }

  /** Hands on what came since the last call, all at once. */
  flush(): void {
    const changes = this.#pending
    this.#pending = []
    if (changes.length > 0) this.#sink?.apply(changes)
    if (!this.#problemsMoved) return
    this.#problemsMoved = false
    this.#sink?.problemsChanged()
  }

  /**
   * Makes the world that of `gathered`, whatever was known: first come upserts, then
   * deletes (an endpoint that moved between slices is never in none); what is the same is
   * not sent again. Older versions are taken too, because the
   * server may be another one, with older state. Stops early when the signal aborts.
   */
  async replace(gathered: ObjectStore, signal: AbortSignal): Promise<void> {
    const turn = pacer()
    const before = this.#objects
    const objects = new Map<string, StoredObject>()
    for (const [key, object] of gathered.#objects) {
      const known = before.get(key)
      const after = withLastGood(object, known)
      const changes = difference(known, after)
      this.#pending.push(...changes)
      // The old small object, where it says the same: what others hold stays shared.
      const kept = known !== undefined && changes.length === 0
      objects.set(key, kept ? { ...after, changes: known.changes } : after)
      await turn()
      if (signal.aborted) break
    }
    if (signal.aborted) {
      this.#pending = []
      return
    }
    for (const [key, object] of before)
      if (!objects.has(key)) this.#pending.push(...difference(object, undefined))
    this.#objects = objects
    this.#tombstones.clear()
    this.#problems = new Map()
    for (const { key, problems } of objects.values())
      if (problems.length > 0) this.#problems.set(key, problems)
    this.#problemsMoved = true
    const changes = this.#pending.splice(0)
    for (let i = 0; i < changes.length; i += mostAtOnce) {
      this.#sink?.apply(changes.slice(i, i + mostAtOnce))
      await turn()
    }
    this.flush()
  }

  #note(before: StoredObject | undefined, after: StoredObject | undefined): void {
    if (this.#sink === undefined) return
    this.#pending.push(...difference(before, after))
    const key = after?.key ?? before?.key ?? ''
    const problems = after?.problems ?? []
    if (problems.length === 0 && !this.#problems.has(key)) return
    if (problems.length === 0) this.#problems.delete(key)
    else this.#problems.set(key, problems)
    this.#problemsMoved = true
  }

  #bury(key: string, resourceVersion: string): void {
    this.#tombstones.delete(key)
    this.#tombstones.set(key, resourceVersion)
    if (this.#tombstones.size <= mostTombstones) return
    for (const oldest of this.#tombstones.keys()) {
      this.#tombstones.delete(oldest)
      break
    }
  }
}
