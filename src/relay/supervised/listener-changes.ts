import { listDiff } from '../../util/list-diff.ts'
import type { RelayListener } from '../relay.ts'

/** A part of what has changed, small enough for one message. */
export interface ListenerChange {
  readonly gone: readonly string[]
  readonly changed: readonly RelayListener[]
}

/** Listeners and endpoints in one message: about a millisecond's work at either end. */
const partWeight = 500

/**
 * What makes `after` of `before`, in parts; listeners that are the same object are the
 * same. At least one part, so that a change of nothing is one too.
 */
export function* listenerChanges(
  before: readonly RelayListener[],
  after: readonly RelayListener[],
): Generator<ListenerChange> {
  const differing = listDiff(before, after)
  const known = new Set(differing.before)
  const wanted = new Set(differing.after.map(({ id }) => id))
  const gone = differing.before.flatMap(({ id }) => (wanted.has(id) ? [] : [id]))
  let part: RelayListener[] = []
  let weight = 0
  yield { gone, changed: [] }
  for (const listener of differing.after) {
    if (known.has(listener)) continue
    part.push(listener)
    weight += 1 + listener.fronts.length + listener.endpoints.length
    if (weight < partWeight) continue
    yield { gone: [], changed: part }
    part = []
    weight = 0
  }
  if (part.length > 0) yield { gone: [], changed: part }
}
