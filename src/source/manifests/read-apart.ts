import { stat } from 'node:fs/promises'
import type { Change } from '../../model/service.ts'
import type { CreatedAt } from '../decode/decode-object.ts'
import { printable } from '../../util/printable.ts'
import { listFiles } from './list-files.ts'
import type { ManifestSet } from './manifest-set.ts'
import type { SourceObject } from '../diff.ts'
import { readManifests } from './read-manifests.ts'
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
  createdAt: CreatedAt,
  signal: AbortSignal,
): Promise<ManifestSet> => {
  const { files } = await listFiles(paths)
  if ((await sizeOf(files)) <= mostHere) return readManifests(paths, createdAt, mostHere)
  try {
    const set = await readInProcess(paths, signal)
    return { ...set, objects: set.objects.map(object => numbered(object, createdAt)) }
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

/** With the number of a Service that did not say when it was made. */
const numbered = (object: SourceObject, createdAt: CreatedAt): SourceObject => ({
  ...object,
  changes: object.changes.map((change): Change => {
    if (change.kind !== 'Service' || change.object === undefined) return change
    const { namespace, name, object: service } = change
    if (!Number.isNaN(service.createdAt)) return change
    return { ...change, object: { ...service, createdAt: createdAt(namespace, name) } }
  }),
})

const nothingRead = (
  paths: readonly string[],
  files: readonly string[],
  { message, code }: UsherError,
): ManifestSet => {
  const object = paths.map(path => printable(path, 300)).join(', ')
  const hole = { object, field: '', message: printable(message, 500) }
  return {
    objects: [],
    refused: new Set(),
    problems: [hole],
    unreadable: [hole],
    transient: code === 'READER_FAILED',
    warnings: [],
    skipped: [],
    files: files.length,
    documents: 0,
  }
}
