import { type ChildProcess, fork } from 'node:child_process'
import type { ManifestSet } from './manifest-set.ts'
import type { SourceObject } from '../diff.ts'
import type { ReaderOrder, ReaderReport } from './reader-messages.ts'
import { UsherError } from '../../util/usher-error.ts'

/** Of the reader's heap, beside the text of one file. */
const mostHeapMiB = 512
/** Milliseconds for all files; 64 MiB of YAML take two minutes on a slow machine. */
const longestReadMs = 600_000
/** Of what it says at its end; V8's last words come early. */
const mostLastWords = 4096

const isSource = import.meta.url.endsWith('.ts')
const program = new URL(
  isSource ? './reader-main.ts' : './reader-main.js',
  import.meta.url,
)

/**
 * Reads manifests in a process of its own, which is killed when `signal` aborts. Rejects
 * with READER_FAILED, READER_MEMORY, or an Error without code when it was aborted.
 */
export const readInProcess = (
  paths: readonly string[],
  signal: AbortSignal,
): Promise<ManifestSet> =>
  new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const reader = fork(program, {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      // Node's own flags of this process are not for it, but TypeScript needs its loader.
      execArgv: [
        ...(isSource ? process.execArgv : []),
        `--max-old-space-size=${mostHeapMiB}`,
      ],
    })
    const objects: SourceObject[] = []
    const refused = new Set<string>()
    let lastWords = ''
    const end = (): void => {
      clearTimeout(late)
      signal.removeEventListener('abort', aborted)
      reader.kill('SIGKILL')
    }
    const fail = (error: Error): void => {
      end()
      reject(error)
    }
    const aborted = (): void => fail(new Error('nobody wants the manifests any more'))
    const late = setTimeout(() => {
      fail(failed(`reading them took more than ${longestReadMs / 60_000} min`))
    }, longestReadMs)
    signal.addEventListener('abort', aborted)
    reader.stderr?.on('data', (words: Buffer) => {
      lastWords = `${lastWords}${words.toString('utf8')}`.slice(0, mostLastWords)
    })
    reader.on('error', error => fail(failed(`no reader: ${error.message}`)))
    // Not `exit`: its last words may still be on their way.
    reader.on('close', (code, killedBy) =>
      fail(failedBecause(killedBy ?? `code ${code}`, lastWords)),
    )
    reader.on('message', (report: ReaderReport) => {
      if (report.kind === 'part') {
        objects.push(...report.objects)
        for (const key of report.refused) refused.add(key)
        return tell(reader, { kind: 'more' })
      }
      resolve({ ...report.rest, objects, refused })
      end()
    })
    tell(reader, { kind: 'read', paths })
  })

const tell = (reader: ChildProcess, order: ReaderOrder): void => {
  // One that has just died is heard of by its exit.
  if (reader.connected) reader.send(order, () => {})
}

const failed = (message: string): UsherError => new UsherError('READER_FAILED', message)

const failedBecause = (how: string, lastWords: string): UsherError =>
  lastWords.includes('heap out of memory')
    ? new UsherError(
        'READER_MEMORY',
        `reading them takes more than ${mostHeapMiB} MiB of memory; split the files, or take out what is no Service, Endpoints, EndpointSlice, Node or ServiceCIDR`,
      )
    : failed(`the reader of manifests ended with ${how}: ${lastWords}`)
