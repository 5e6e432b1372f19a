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
