import { type ApiError, statusOf } from './api-error.ts'
import type { Resource } from './resources.ts'
import type { Selector } from './selectors.ts'
import type { Change } from './store.ts'
import { parsed, store, type Stored } from './stored.ts'

/** A line of a watch. */
export const addedLine = (object: Stored): string => line('ADDED', object.json)

/**
 * A change as the watcher of a selection sees it: an object that begins to match is added,
 * one that no longer does is deleted. Undefined when it is none of its business.
 */
export const changeLine = (
  { type, version, now, before }: Change,
  selects: Selector,
): string | undefined => {
  const was = before !== undefined && selects(before)
  const is = type !== 'DELETED' && selects(now)
  if (is) return line(was ? 'MODIFIED' : 'ADDED', now.json)
  if (!was) return undefined
  // What is told is the last state that matched, with the version of this change.
  return line('DELETED', store(before.resource, parsed(before), version).json)
}

/** What the object was before the change: an event that comes too late. */
export const staleLine = ({ before }: Change, selects: Selector): string | undefined =>
  before !== undefined && selects(before) ? line('MODIFIED', before.json) : undefined

export const bookmarkLine = (
  resource: Resource,
  version: number,
  endsInitial: boolean,
): string => {
  const { kind, apiVersion, empty } = resource
  const annotations = endsInitial
    ? { annotations: { 'k8s.io/initial-events-end': 'true' } }
    : {}
  const metadata = {
    resourceVersion: String(version),
    creationTimestamp: null,
    ...annotations,
  }
  return line('BOOKMARK', JSON.stringify({ kind, apiVersion, metadata, ...empty }))
}

export const errorLine = (error: ApiError): string =>
  line('ERROR', JSON.stringify(statusOf(error)))

/** No JSON, and not the beginning of any. */
export const garbageLine = '<html><h1>502 Bad Gateway</h1></html>\n'

/** Half an event. */
export const brokenLine = '{"type":"MODIFIED","object":{"kind":"Serv'

/** A bookmark that changes nothing, but for its size. */
export const hugeLine = (resource: Resource, version: number, bytes: number): string => {
  const { kind, apiVersion } = resource
  const annotations = { 'test/filler': 'x'.repeat(bytes) }
  const metadata = { resourceVersion: String(version), annotations }
  return line('BOOKMARK', JSON.stringify({ kind, apiVersion, metadata }))
}

const line = (type: string, object: string): string =>
  `{"type":"${type}","object":${object}}\n`
