import type { Problem } from '../../model/snapshot.ts'

/** What came of one raw object. */
export interface Decoded<T> {
  /** '' for kinds without one, and when it could not be read. */
  readonly namespace: string
  /** '' when it could not be read: then nothing but `problems` is of use. */
  readonly name: string
  /** `Service default/web`, safe to print whatever it was called. */
  readonly title: string
  /** Undefined when the object is refused (see `problems`) or not served (see `ignored`). */
  readonly object: T | undefined
  /** Beside an object: what was left out of it. It is to be served all the same. */
  readonly problems: readonly Problem[]
  /** What no API server would have taken, although it can be served. */
  readonly unheardOf: readonly Problem[]
  /** Why a sound object is not served; '' when it is. */
  readonly ignored: string
}

/** Stands in for `metadata.creationTimestamp` where an object has none. */
export type CreatedAt = (namespace: string, name: string) => number
