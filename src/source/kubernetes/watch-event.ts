import { parseJson, peek } from '../../util/json.ts'
import { ApiError } from './api-error.ts'
import { UsherError } from '../../util/usher-error.ts'

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: unknown
  readonly resourceVersion: string
}

const types: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])

/** Reads one line of a watch. Throws ApiError for an ERROR event, MALFORMED for nonsense. */
export const watchEvent = (line: string): WatchEvent => {
  const event = parseJson(line)
  if (event === undefined)
    throw new UsherError('MALFORMED', 'the server sent a line that is not JSON')
  const type = peek(event, 'type')
  const object = peek(event, 'object')
  if (type === 'ERROR') {
    const code = peek(object, 'code')
    const status = typeof code === 'number' ? code : 500
    throw new ApiError(status, object, 0, 'API_WATCH_REFUSED')
  }
  const resourceVersion = peek(peek(object, 'metadata'), 'resourceVersion')
  if (!isType(type) || typeof resourceVersion !== 'string')
    throw new UsherError('MALFORMED', 'the server sent a line that is no event')
  return { type, object, resourceVersion }
}

const isType = (type: unknown): type is WatchEvent['type'] => types.has(type)

/** Whether a bookmark says that the state asked for with `sendInitialEvents` is complete. */
export const endsInitialEvents = ({ type, object }: WatchEvent): boolean =>
  type === 'BOOKMARK' &&
  peek(peek(peek(object, 'metadata'), 'annotations'), 'k8s.io/initial-events-end') ===
    'true'
