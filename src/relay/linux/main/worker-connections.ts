import {
  threadOf,
  type ConnectionsPage,
  type ConnectionsQuery,
} from '../../open-connections.ts'
import type { WorkerHandle } from './worker-handle.ts'

type Worker = Pick<WorkerHandle, 'thread' | 'call'>

const none: ConnectionsPage = { connections: [], counted: 0, next: undefined }

/** A page of one worker's connections; `after` begins with the number of the worker. */
export const workersPage = async (
  workers: readonly Worker[],
  query: ConnectionsQuery,
): Promise<ConnectionsPage> => {
  const { after = '' } = query
  const [thread = '', last = ''] = after.split(' ')
  const at = after === '' ? 0 : workers.findIndex(one => String(one.thread) === thread)
  const worker = workers[at]
  if (worker === undefined) return none
  const call = { kind: 'connections', query: { ...query, after: last } } as const
  // One that does not live to answer has none.
  const page = ((await worker.call(call)) as ConnectionsPage | undefined) ?? none
  if (page.next !== undefined) return { ...page, next: `${worker.thread} ${page.next}` }
  const following = workers[at + 1]
  return { ...page, next: following && `${following.thread} ` }
}

/** Asks each worker that has named one of them. */
export const closeInWorkers = async (
  workers: readonly Worker[],
  ids: readonly string[],
): Promise<readonly string[]> => {
  const closed = workers.map(async worker => {
    const own = ids.filter(id => threadOf(id) === worker.thread)
    if (own.length === 0) return []
    const answer = await worker.call({ kind: 'close-connections', ids: own })
    return (answer as readonly string[] | undefined) ?? []
  })
  return (await Promise.all(closed)).flat()
}
