import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { decode } from '../decode/decode.ts'
import { peek } from '../../util/json.ts'
import { changesBetween, type Applied } from '../diff.ts'
import type { Collection } from './collection.ts'

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
