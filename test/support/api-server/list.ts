import { ApiError } from './api-error.ts'
import { checkListOptions } from './list-options.ts'
import type { Behaviour } from './options.ts'
import { selectorOf, listVersionOf, wholeNumber } from './query.ts'
import { tooLarge, tooOldList, tooOldPage } from './refusals.ts'
import type { Resource } from './resources.ts'
import { asItem, type Stored } from './stored.ts'
import type { Store } from './store.ts'
import type { Target } from './target.ts'

/** Items in one piece of the text, so that a long list blocks nobody for long. */
const itemsPerPiece = 100

interface Page {
  readonly version: number
  readonly items: readonly Stored[]
  /** How many come after these; undefined at the end. */
  readonly remaining: number | undefined
}

/** The text of a list, piece by piece. Throws 400, 410, 422 or 504 before the first. */
export const list = (
  store: Store,
  resource: Resource,
  target: Target,
  behaviour: Behaviour,
): Generator<string> => {
  const page = pageOf(store, resource, target, behaviour)
  return textOf(resource, page, hasSelector(target))
}

const hasSelector = ({ query }: Target): boolean =>
  query.has('labelSelector') || query.has('fieldSelector')

const pageOf = (
  store: Store,
  resource: Resource,
  target: Target,
  behaviour: Behaviour,
): Page => {
  const { query } = target
  const token = query.get('continue') ?? ''
  const match = query.get('resourceVersionMatch') ?? ''
  checkListOptions(query, behaviour)
  const selects = selectorOf(resource, target, behaviour)
  const from = token === '' ? undefined : readToken(token)
  const asked = listVersionOf(query)
  if (from !== undefined && asked !== undefined && asked !== 0)
    throw new ApiError(
      400,
      'specifying resource version is not allowed when using continue',
    )
  // NotOlderThan waits for that version on a real server, and then gives up.
  if (match !== 'Exact' && from === undefined && (asked ?? 0) > store.version)
    throw tooLarge(asked ?? 0, store.version)
  const version =
    from?.version ?? (match === 'Exact' ? asked : undefined) ?? store.version
  if (version < store.compacted)
    throw from === undefined ? tooOldList() : tooOldPage(writeToken(-1, from.after))
  const all = store
    .list(resource, version)
    .filter(object => (from === undefined || object.key > from.after) && selects(object))
  // "Any version will do" is answered from a cache, which knows no pages.
  const whole = asked === 0 && match !== 'Exact' && token === ''
  const limit = whole ? 0 : wholeNumber(query.get('limit') ?? '0')
  if (limit === 0 || all.length <= limit)
    return { version, items: all, remaining: undefined }
  return { version, items: all.slice(0, limit), remaining: all.length - limit }
}

const textOf = function* (
  { kind, apiVersion }: Resource,
  { version, items, remaining }: Page,
  selected: boolean,
): Generator<string> {
  const last = items.at(-1)
  const metadata = {
    resourceVersion: String(version),
    ...(remaining === undefined || last === undefined
      ? {}
      : { continue: writeToken(version, last.key) }),
    // The server does not count what it would have to filter.
    ...(remaining === undefined || selected ? {} : { remainingItemCount: remaining }),
  }
  yield `{"kind":"${kind}List","apiVersion":"${apiVersion}","metadata":${JSON.stringify(metadata)},"items":[`
  for (let i = 0; i < items.length; i += itemsPerPiece) {
    const piece = items.slice(i, i + itemsPerPiece).map(asItem)
    yield (i === 0 ? '' : ',') + piece.join(',')
  }
  yield ']}\n'
}

const writeToken = (rv: number, start: string): string =>
  Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv, start })).toString('base64url')

/** A version of -1 is a token of an expired page: whatever is there now. */
const readToken = (token: string): { version: number | undefined; after: string } => {
  try {
    const text = Buffer.from(token, 'base64url').toString()
    const { rv, start } = JSON.parse(text) as { rv: unknown; start: unknown }
    if (typeof rv === 'number' && typeof start === 'string')
      return { version: rv < 0 ? undefined : rv, after: start }
  } catch {
    // Said below.
  }
  throw new ApiError(400, 'invalid continue token: continue key is not valid')
}
