import type { Collection, Page } from './collection.ts'
import type { ObjectStore } from './object-store.ts'
import {
  difference,
  fallsBehind,
  isOlder,
  storedObject,
  type StoredObject,
} from './stored-object.ts'

/** Reads one page of a collection. */
export type ReadPage = (
  collection: Collection,
  query: Readonly<Record<string, string>>,
  item: (item: unknown) => void,
) => Promise<Page>

/**
 * Why a watch can't go on from `resourceVersion` although the server would take it; '' when
 * it can. A server that was restored from a backup, or is another one, sends nothing until
 * it gets there, and its changes until then would be lost. It is recognised by its
 * resourceVersion and, in case that has caught up, by the newest known object: it must
 * exist, and must not have been changed at a version that has been watched already. One
 * list of one object; kube-proxy's role may not `get`.
 */
export const brokenHistory = async (
  readPage: ReadPage,
  store: ObjectStore,
  collection: Collection,
  resourceVersion: string,
): Promise<string> => {
  const known = store.newest()
  let found: StoredObject | undefined
  const item = (raw: unknown) => (found = storedObject(raw, collection))
  const [place, query] = placeOf(collection, known)
  const page = await readPage(place, query, item)
  const behind = fallsBehind(page.resourceVersion, resourceVersion)
  if (behind !== '' || known === undefined) return behind
  return isSameHistory(known, found, resourceVersion)
    ? ''
    : `${known.key} is not what it was: the server holds another state`
}

const isSameHistory = (
  known: StoredObject,
  found: StoredObject | undefined,
  resourceVersion: string,
): boolean => {
  // Deleted just now, which is rare, or never there: taken for the latter.
  if (found === undefined) return false
  if (found.resourceVersion === known.resourceVersion)
    return found.problems.length > 0 || difference(known, found).length === 0
  return isOlder(resourceVersion, found.resourceVersion)
}

/** Where the known object is, and how to ask for it alone. */
const placeOf = (
  collection: Collection,
  known: StoredObject | undefined,
): [Collection, Record<string, string>] => {
  if (known === undefined) return [collection, { limit: '1' }]
  const [namespace, name] = known.key.slice(collection.kind.length + 1).split('/', 2)
  const fieldSelector = `metadata.name=${name ?? namespace}`
  if (name === undefined) return [collection, { fieldSelector }]
  const path = collection.path.replace(/\/([^/]+)$/, `/namespaces/${namespace}/$1`)
  return [{ ...collection, path }, { fieldSelector }]
}
