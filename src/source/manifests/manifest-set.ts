import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'

/** A sound object of some document. */
export interface ManifestObject {
  /** `Service default/web`; unique within a set. */
  readonly key: string
  /** What it puts into the world; empty for one that is not served (a headless Service). */
  readonly changes: readonly Change[]
}

/** All that some paths held at one moment. */
export interface ManifestSet {
  /** In the order of paths, files and documents. */
  readonly objects: readonly ManifestObject[]
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
