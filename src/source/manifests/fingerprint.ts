import { stat } from 'node:fs/promises'
import { listFiles } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import { messageOf } from '../../util/usher-error.ts'

/** A file changed more recently than this may change again and look the same. */
const settledMs = 2000

/**
 * A text that differs when a file behind `paths` has been changed, replaced, added or
 * removed: inode, size and both times of each. A file whose time is as good as now is
 * marked, so that it is looked at once more when its time has passed: two writes within
 * one tick of the file system's clock leave the same time (git's "racily clean" entries).
 */
export const fingerprint = async (paths: readonly string[]): Promise<string> => {
  const { files, failures } = await listFiles(paths)
  const lines = failures.map(({ path, message }) => `${path}\0${message}`)
  for (const file of files) lines.push(`${file}\0${await print(file)}`)
  return lines.join('\n')
}

const print = async (file: string): Promise<string> => {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
    const age = Date.now() - Number(ctimeNs / 1_000_000n)
    const racy = age >= 0 && age < settledMs ? 'racy' : ''
    return [dev, ino, size, mtimeNs, ctimeNs, racy].join(' ')
  } catch (error) {
    return messageOf(error)
  }
}

interface SteadyRead {
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
