import type { ApiError } from './api-error.ts'
import type { Behaviour } from './options.ts'
import { watchVersionOf } from './query.ts'
import { noProgress, tooLarge, tooOldWatch } from './refusals.ts'
import type { Resource } from './resources.ts'
import type { Store } from './store.ts'
import { isTrue, type Target } from './target.ts'

/** Where a watch begins. */
export interface WatchStart {
  /** Changes up to this version are not told. */
  readonly after: number
  /** Whether what there is now comes first. */
  readonly initial: boolean
  /** Whether a bookmark says where that ends. */
  readonly marked: boolean
  /** Told as an event, in place of a watch. */
  readonly error?: ApiError
}

/** Reads what a watch asks for. Throws 410, 422 or 504. */
export const watchStart = (
  store: Store,
  resource: Resource,
  { query }: Target,
  behaviour: Behaviour,
): WatchStart => {
  const asked = watchVersionOf(query, resource)
  const streaming =
    query.has('sendInitialEvents') &&
    !['unknown', 'ignored'].includes(behaviour.streamingLists)
  if (streaming) return streamingStart(store, query, asked, behaviour)
  if (asked === undefined || asked === 0)
    return { after: store.version, initial: true, marked: false }
  if (asked > store.version && behaviour.futureWatch === 'too-large')
    throw tooLarge(asked, store.version)
  const gone =
    asked < store.compacted || (asked > store.version && behaviour.futureWatch === 'gone')
  const start = { after: asked, initial: false, marked: false }
  if (!gone) return start
  const error = tooOldWatch(asked, store.compacted)
  if (behaviour.goneAs === 'status') throw error
  return { ...start, error }
}

const streamingStart = (
  store: Store,
  query: URLSearchParams,
  asked: number | undefined,
  { streamingLists }: Behaviour,
): WatchStart => {
  if (streamingLists === 'unable')
    return { after: store.version, initial: false, marked: false, error: noProgress() }
  if ((asked ?? 0) > store.version) throw tooLarge(asked ?? 0, store.version)
  const initial = isTrue(query.get('sendInitialEvents'))
  return {
    after: initial
      ? store.version
      : asked === 0
        ? store.version
        : (asked ?? store.version),
    initial,
    marked: initial,
  }
}
