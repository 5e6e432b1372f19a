import { listDiff } from '../util/list-diff.ts'
import type { RelayListener } from './relay.ts'

/** What makes one list of listeners of another; the same object is the same listener. */
export interface ListenerChanges {
  readonly gone: readonly RelayListener[]
  /** New ones too. */
  readonly changed: readonly RelayListener[]
}

export const listenerChanges = (
  before: readonly RelayListener[],
  after: readonly RelayListener[],
): ListenerChanges => {
  const differing = listDiff(before, after)
  const known = new Set(differing.before)
  const wanted = new Set(differing.after.map(({ id }) => id))
  return {
    gone: differing.before.filter(({ id }) => !wanted.has(id)),
    changed: differing.after.filter(listener => !known.has(listener)),
  }
}

/**
 * What an `apply` has to do. `applied` is undefined after one that did not come to its end: any of
 * `known` may be half-way then.
 */
export const changesToApply = (
  applied: readonly RelayListener[] | undefined,
  known: ReadonlyMap<string, RelayListener>,
  wanted: readonly RelayListener[],
): ListenerChanges => {
  if (applied !== undefined) return listenerChanges(applied, wanted)
  const { gone } = listenerChanges([...known.values()], wanted)
  return { gone, changed: wanted }
}
