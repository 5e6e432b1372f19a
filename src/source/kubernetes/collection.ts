import type { Clock } from '../../util/clock.ts'
import type { ApiClient, ApiResponse } from './api-client.ts'
import { ListParser } from './json-stream.ts'
import { readBody } from './read-body.ts'
/** One collection of the API as Usher reads it. */
export interface Collection {
  /** `services`, for messages. */
  readonly resource: string
  /** Items of a list come without these two. `apiVersion` is that of the decoder. */
  readonly apiVersion: string
  readonly kind: string
  /** `/api/v1/services`. */
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /** Only saves traffic: left out where the server does not know the field. */
  readonly fieldSelectorOptional?: boolean
}

/** Services of other proxies and headless ones stay away; the decoder drops what comes all the same. */
export const services: Collection = {
  resource: 'services',
  apiVersion: 'v1',
  kind: 'Service',
  path: '/api/v1/services',
  labelSelector: '!service.kubernetes.io/service-proxy-name',
  fieldSelector: 'spec.clusterIP!=None',
  fieldSelectorOptional: true,
}

/** Slices; where the API server has none (before 1.21), Endpoints. */
export const endpointSlices: readonly Collection[] = [
  {
    resource: 'endpointslices',
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    path: '/apis/discovery.k8s.io/v1/endpointslices',
    labelSelector: '!service.kubernetes.io/headless',
  },
  {
    resource: 'endpoints',
    apiVersion: 'v1',
    kind: 'Endpoints',
    path: '/api/v1/endpoints',
    labelSelector: '!service.kubernetes.io/headless',
  },
]

export const node = (name: string): Collection => ({
  resource: 'nodes',
  apiVersion: 'v1',
  kind: 'Node',
  path: '/api/v1/nodes',
  fieldSelector: `metadata.name=${name}`,
})

/** All but that one. */
export const otherNodes = (name: string): Collection => ({
  ...node(name),
  fieldSelector: `metadata.name!=${name}`,
})

/** From 1.33, as beta from 1.31; both have the same shape. */
export const serviceCIDRs: readonly Collection[] = ['v1', 'v1beta1'].map(version => ({
  resource: 'servicecidrs',
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  path: `/apis/networking.k8s.io/${version}/servicecidrs`,
}))

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

interface PageRequest {
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
