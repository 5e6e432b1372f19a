import { stat } from 'node:fs/promises'
import { printable } from '../../util/printable.ts'
import { listFiles } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import { readManifests, SetBuilder } from './read-manifests.ts'
import { readInProcess } from './reader-process.ts'
import { hasCode, type UsherError } from '../../util/usher-error.ts'

/**
 * Bytes. Up to here files are read in this process, which may hold it up for 0.1 s; a
 * process of their own would take longer to start.
 */
const mostHere = 64 * 1024

/**
 * Reads manifests without holding up this process, whatever is in them, and until `signal`
 * aborts; then it rejects. See readManifests for the rest.
 */
export const readApart = async (
  paths: readonly string[],
  signal: AbortSignal,
): Promise<ManifestSet> => {
  const { files } = await listFiles(paths)
  if ((await sizeOf(files)) <= mostHere) return readManifests(paths, mostHere)
  try {
    return await readInProcess(paths, signal)
  } catch (error) {
    if (hasCode(error, 'READER_FAILED', 'READER_MEMORY'))
      return nothingRead(paths, files, error)
    throw error
  }
}

/** Bytes; of files that are not there any more, none. */
const sizeOf = async (files: readonly string[]): Promise<number> => {
  let sum = 0
  for (const file of files) {
    sum += await stat(file).then(
      ({ size }) => size,
      () => 0,
    )
    if (sum > mostHere) return sum
  }
  return sum
}

const nothingRead = (
  paths: readonly string[],
  files: readonly string[],
  { message, code }: UsherError,
): ManifestSet => {
  const set = new SetBuilder()
  set.unreadableFile(
    paths.map(path => printable(path, 300)).join(', '),
    printable(message, 500),
  )
  return { ...set.build(), transient: code === 'READER_FAILED', files: files.length }
}
