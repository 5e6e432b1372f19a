import { stat } from 'node:fs/promises'
import { printable } from '../../util/printable.ts'
import { listFiles } from './list-files.ts'
import { readManifests, SetBuilder, type ManifestSet } from './read-manifests.ts'
import { hasCode, UsherError } from '../../util/usher-error.ts'
import { type ChildProcess, fork } from 'node:child_process'
import type { SourceObject } from '../diff.ts'
import { programFile } from '../../util/own-files.ts'

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

/** To the reader: what to read, then one `more` for each part of what it has found. */
export type ReaderOrder =
  { readonly kind: 'read'; readonly paths: readonly string[] } | { readonly kind: 'more' }

/**
 * From the reader: parts of a set, so small that taking one in does not hold up the event loop,
 * and what remains of the set at the end.
 */
export type ReaderReport =
  | {
      readonly kind: 'part'
      readonly objects: readonly SourceObject[]
      readonly refused: readonly string[]
    }
  | { readonly kind: 'end'; readonly rest: Omit<ManifestSet, 'objects' | 'refused'> }

/** Of the reader's heap, beside the text of one file. */
const mostHeapMiB = 512
/** Milliseconds for all files; 64 MiB of YAML take two minutes on a slow machine. */
const longestReadMs = 600_000
/** Characters of its stderr; V8 writes why it ends first. */
const mostErrors = 4096

/**
 * Reads manifests in a process of its own, which is killed when `signal` aborts. Rejects
 * with READER_FAILED, READER_MEMORY, or an Error without code when it was aborted.
 */
const readInProcess = (
  paths: readonly string[],
  signal: AbortSignal,
): Promise<ManifestSet> =>
  new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const reader = fork(programFile('manifest-reader'), {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      // Node's own flags of this process are not for it.
      execArgv: [`--max-old-space-size=${mostHeapMiB}`],
    })
    const objects: SourceObject[] = []
    const refused = new Set<string>()
    let errors = ''
    const end = (): void => {
      clearTimeout(late)
      signal.removeEventListener('abort', aborted)
      reader.kill('SIGKILL')
    }
    const fail = (error: Error): void => {
      end()
      reject(error)
    }
    const aborted = (): void => fail(new Error('the manifests are not wanted any more'))
    const late = setTimeout(() => {
      fail(failed(`reading them took more than ${longestReadMs / 60_000} min`))
    }, longestReadMs)
    signal.addEventListener('abort', aborted)
    reader.stderr?.on('data', (chunk: Buffer) => {
      errors = `${errors}${chunk.toString('utf8')}`.slice(0, mostErrors)
    })
    reader.on('error', error => fail(failed(`no reader: ${error.message}`)))
    // Not `exit`: its stderr may not have been read to its end.
    reader.on('close', (code, killedBy) =>
      fail(failedBecause(killedBy ?? `code ${code}`, errors)),
    )
    reader.on('message', (report: ReaderReport) => {
      if (report.kind === 'part') {
        objects.push(...report.objects)
        for (const key of report.refused) refused.add(key)
        return send(reader, { kind: 'more' })
      }
      resolve({ ...report.rest, objects, refused })
      end()
    })
    send(reader, { kind: 'read', paths })
  })

const send = (reader: ChildProcess, order: ReaderOrder): void => {
  // Of one that has just died the exit is reported.
  if (reader.connected) reader.send(order, () => {})
}

const failed = (message: string): UsherError => new UsherError('READER_FAILED', message)

const failedBecause = (how: string, errors: string): UsherError =>
  errors.includes('heap out of memory')
    ? new UsherError(
        'READER_MEMORY',
        `reading them takes more than ${mostHeapMiB} MiB of memory; split the files, or remove everything but Services, Endpoints, EndpointSlices, Nodes and ServiceCIDRs`,
      )
    : failed(`the reader of manifests ended with ${how}: ${errors}`)
