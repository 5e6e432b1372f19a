import type { Clock } from '../../util/clock.ts'
import type { ApiClient, ApiResponse } from './api-client.ts'
import type { Collection } from './collection.ts'
import { ListParser } from './json-stream.ts'
import { readBody } from './read-body.ts'

/** What of a client is needed to read collections. */
export type Requests = Pick<ApiClient, 'request'>

/**
 * Objects in a page. More than client-go's 500, because pages count against qps and the
 * parser streams: 10 000 Services and slices fit into a burst of 10.
 */
const pageSize = 2000
/** A list that stops coming is given up after so many milliseconds. */
const listSilenceMs = 30_000

export interface Page {
  readonly resourceVersion: string
  /** '' on the last page. */
  readonly continue: string
}

export interface PageRequest {
  readonly requests: Requests
  readonly collection: Collection
  readonly query: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly item: (item: unknown) => void
}

/** Reads one page, the items of which are handed on as they arrive. */
export const readPage = async (request: PageRequest): Promise<Page> => {
  const { requests, collection, clock, signal, item } = request
  const query = { limit: String(pageSize), ...selectors(collection), ...request.query }
  const { body } = await requests.request({ path: collection.path, query, signal })
  const parser = new ListParser(item)
  const chunk = (part: Buffer) => parser.push(part)
  await readBody(body, { clock, silenceMs: listSilenceMs, chunk })
  const { metadata } = parser.end()
  const { resourceVersion, continue: token } = metadata ?? {}
  if (typeof resourceVersion !== 'string' || resourceVersion === '')
    throw new Error('the list has no resourceVersion')
  return { resourceVersion, continue: typeof token === 'string' ? token : '' }
}

/** Opens a watch that ends by itself after so many seconds. */
export const openWatch = (
  requests: Requests,
  collection: Collection,
  query: Readonly<Record<string, string>>,
  timeoutSeconds: number,
  signal: AbortSignal,
): Promise<ApiResponse> =>
  requests.request({
    path: collection.path,
    query: {
      watch: '1',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(timeoutSeconds),
      ...selectors(collection),
      ...query,
    },
    signal,
  })

const selectors = ({
  labelSelector,
  fieldSelector,
}: Collection): Record<string, string> => ({
  ...(labelSelector !== undefined && { labelSelector }),
  ...(fieldSelector !== undefined && { fieldSelector }),
})
