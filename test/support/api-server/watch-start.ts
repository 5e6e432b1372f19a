import { ApiError, tooLarge, tooOld } from './api-error.ts'
import type { Behaviour } from './options.ts'
import { versionOf } from './query.ts'
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

/** Reads what a watch asks for. Throws 400, 410, 422 or 504. */
export const watchStart = (
  store: Store,
  { query }: Target,
  behaviour: Behaviour,
): WatchStart => {
  const asked = versionOf(query)
  const streaming =
    query.has('sendInitialEvents') && behaviour.streamingLists !== 'ignored'
  if (streaming) return streamingStart(store, query, asked, behaviour)
  if (asked === undefined || asked === 0)
    return { after: store.version, initial: true, marked: false }
  if (asked > store.version && behaviour.futureWatch === 'too-large')
    throw tooLarge(asked, store.version)
  const gone =
    asked < store.compacted || (asked > store.version && behaviour.futureWatch === 'gone')
  const start = { after: asked, initial: false, marked: false }
  if (!gone) return start
  const error = tooOld(asked, store.compacted)
  if (behaviour.goneAs === 'status') throw error
  return { ...start, error }
}

const streamingStart = (
  store: Store,
  query: URLSearchParams,
  asked: number | undefined,
  { streamingLists }: Behaviour,
): WatchStart => {
  if (streamingLists === 'refused')
    throw new ApiError(
      422,
      'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled',
    )
  if (query.get('resourceVersionMatch') !== 'NotOlderThan')
    throw new ApiError(
      422,
      'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    )
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
