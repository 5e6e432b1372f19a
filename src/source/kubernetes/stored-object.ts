import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { decode } from '../decode/decode.ts'
import { peek } from '../../util/printable.ts'
import { changesBetween, type Applied } from '../diff.ts'
import type { Collection } from './collection.ts'
import { ApiError } from './api-error.ts'
import { hasCode } from '../../util/usher-error.ts'

/** All that is kept of an object of the API. */
export interface StoredObject {
  readonly key: string
  readonly resourceVersion: string
  /** What it puts into the world; empty when it is not served. */
  readonly changes: readonly Change[]
  /** What is wrong with it. */
  readonly problems: readonly Problem[]
  /** Nothing of it could be read; then `changes` are those of its last good version, if any. */
  readonly unread: boolean
}

/** `namespace/name resourceVersion` of a raw object. Throws when it can't be one of the API's. */
export const identityOf = (
  raw: unknown,
  { kind }: Collection,
): { key: string; resourceVersion: string } => {
  const metadata = peek(raw, 'metadata')
  const name = peek(metadata, 'name')
  const resourceVersion = peek(metadata, 'resourceVersion')
  if (typeof name !== 'string' || typeof resourceVersion !== 'string')
    throw new Error(`a ${kind} without metadata.name or metadata.resourceVersion`)
  const namespace = peek(metadata, 'namespace')
  const prefix = typeof namespace === 'string' ? `${namespace}/` : ''
  return { key: `${kind} ${prefix}${name}`, resourceVersion }
}

/** Makes the small object out of a raw one, which is not kept. */
export const storedObject = (raw: unknown, collection: Collection): StoredObject => {
  const { key, resourceVersion } = identityOf(raw, collection)
  const { apiVersion, kind } = collection
  // What an API server would have refused was written past its validation.
  const decoded = decode({ ...(raw as object), apiVersion, kind }, true)
  // A kind that the decoder skips is not served.
  if (!('changes' in decoded))
    return { key, resourceVersion, changes: [], problems: [], unread: false }
  const { changes, problems, unread } = decoded
  return { key, resourceVersion, changes, problems, unread }
}

/** One of which nothing can be read, with what its last good version put into the world. */
export const withLastGood = (
  now: StoredObject,
  before: StoredObject | undefined,
): StoredObject =>
  now.unread && before !== undefined ? { ...now, changes: before.changes } : now

/**
 * What differs in the world, compared by value. The resourceVersion is no proof: it moves
 * with every annotation, and a server restored from a backup gives the same one again.
 */
export const difference = (
  before: StoredObject | undefined,
  after: StoredObject | undefined,
): Change[] =>
  before?.changes === after?.changes
    ? []
    : changesBetween(applied(before), applied(after))

const applied = (object: StoredObject | undefined): Applied =>
  new Map(object === undefined ? [] : [[object.key, object]])

const decimal = /^(0|[1-9]\d*)$/

/**
 * Whether one resourceVersion is older than another: they are decimal numbers that may be
 * compared (KEP-5504; etcd's revisions). False where one is something else: then a watch's
 * order has to be trusted.
 */
export const isOlder = (a: string, b: string): boolean =>
  decimal.test(a) &&
  decimal.test(b) &&
  (a.length < b.length || (a.length === b.length && a < b))

const gone = 410

/** Whether all has to be listed after this error. */
export const isRelist = (error: Error): boolean =>
  hasCode(error, 'RELIST') ||
  (error instanceof ApiError && (error.status === gone || error.behind))

/** Why a server that is at `theirs` is not the one that was at `ours`; '' when it may be. */
export const fallsBehind = (theirs: string, ours: string): string =>
  isOlder(theirs, ours)
    ? `the server is at resourceVersion ${theirs}, before ${ours}: it holds an older state`
    : ''
