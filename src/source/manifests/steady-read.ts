import { fingerprint } from './fingerprint.ts'
import type { ManifestSet } from './manifest-set.ts'

export interface SteadyRead {
  readonly set: ManifestSet
  /** Of the files as they were before they were read. */
  readonly fingerprint: string
}

/** Something that writes without pause gets read in the middle at last. */
const mostAttempts = 5

/**
 * Calls `read` when `paths` hold still: a set in the middle of which a file changed is not
 * one that ever was, and is read again after `wait`.
 */
export const steadyRead = async (
  paths: readonly string[],
  read: () => Promise<ManifestSet>,
  wait: () => Promise<void>,
): Promise<SteadyRead> => {
  for (let attempt = 1; ; attempt++) {
    const before = await fingerprint(paths)
    const set = await read()
    if (attempt === mostAttempts || before === (await fingerprint(paths)))
      return { set, fingerprint: before }
    await wait()
  }
}
