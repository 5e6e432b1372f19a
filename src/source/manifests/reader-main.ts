/**
 * The reader of manifests: a process of its own, because parsing holds up the event loop,
 * may end in one of V8's fatal errors, and takes memory that no limit of a thread bounds
 * (JSON.parse goes on beyond it). Started by read-apart.ts; it lives no longer than that.
 */
import { readManifests, type ManifestSet } from './read-manifests.ts'
import type { ReaderOrder, ReaderReport } from './read-apart.ts'

/** Objects, or names of refused ones, in one message. */
const mostInPart = 200

const report = (what: ReaderReport): void => {
  // With a callback, a parent that has just gone is no uncaught error.
  if (process.connected) process.send?.(what, undefined, {}, () => {})
}

function* reports({ objects, refused, ...rest }: ManifestSet): Generator<ReaderReport> {
  for (let i = 0; i < objects.length; i += mostInPart)
    yield { kind: 'part', objects: objects.slice(i, i + mostInPart), refused: [] }
  const keys = [...refused]
  for (let i = 0; i < keys.length; i += mostInPart)
    yield { kind: 'part', objects: [], refused: keys.slice(i, i + mostInPart) }
  yield { kind: 'end', rest }
}

let unsent: Iterator<ReaderReport> | undefined

const sendNext = (): void => {
  const next = unsent?.next()
  if (next?.done === false) report(next.value)
}

const read = async (paths: readonly string[]): Promise<void> => {
  unsent = reports(await readManifests(paths))
  sendNext()
}

process.on('message', (order: ReaderOrder) => {
  if (order.kind === 'more') return sendNext()
  // A rejection ends this process, which is noticed.
  void read(order.paths)
})
// Signals of a terminal reach the whole group: the parent decides what ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {})
const orphaned = (): void => void process.kill(process.pid, 'SIGKILL')
process.on('disconnect', orphaned)
if (!process.connected) orphaned()
