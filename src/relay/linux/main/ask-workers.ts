import { threadOf } from '../../open-connections.ts'
import {
  type AnswerTo,
  type Asked,
  noAnswer,
  notThere,
  type Question,
} from '../../questions.ts'
import type { Port } from './port.ts'
import type { WorkerHandle } from './worker-handle.ts'

type Workers = readonly Pick<WorkerHandle, 'thread' | 'call'>[]

type Ports = { get(id: string): Pick<Port, 'explained'> | undefined }

/** What the workers answer together. */
export const askWorkers = <Q extends Question>(
  workers: Workers,
  ports: Ports,
  question: Q,
  asked: Asked<Q>,
): Promise<AnswerTo<Q>> => ways[question](workers, asked, ports)

/** One that does not live to answer has no connections. */
const ask = async <Q extends Question>(
  worker: Workers[number],
  question: Q,
  asked: Asked<Q>,
): Promise<AnswerTo<Q>> => {
  const answer = await worker.call({ kind: 'ask', question, asked })
  return (answer as AnswerTo<Q> | undefined) ?? noAnswer[question]
}

const ways: {
  readonly [Q in Question]: (
    workers: Workers,
    asked: Asked<Q>,
    ports: Ports,
  ) => Promise<AnswerTo<Q>>
} = {
  /** A page of one worker's connections; `after` begins with the number of the worker. */
  connections: async (workers, query) => {
    const { after = '' } = query
    const [thread = '', last = ''] = after.split(' ')
    const at = after === '' ? 0 : workers.findIndex(one => String(one.thread) === thread)
    const worker = workers[at]
    if (worker === undefined) return noAnswer.connections
    const page = await ask(worker, 'connections', { ...query, after: last })
    if (page.next !== undefined) return { ...page, next: `${worker.thread} ${page.next}` }
    const following = workers[at + 1]
    return { ...page, next: following && `${following.thread} ` }
  },

  /** Asks each worker that has named one of them. */
  'close-connections': async (workers, ids) => {
    const closed = workers.map(async worker => {
      const own = ids.filter(id => threadOf(id) === worker.thread)
      return own.length === 0 ? [] : ask(worker, 'close-connections', own)
    })
    return (await Promise.all(closed)).flat()
  },

  /** Of all workers together; `next` has a part of each. */
  ended: async (workers, query) => {
    const before = query.after?.split('_')
    const looks = workers.map(async worker => {
      // Of one that could not be asked then there is none: what it had kept is lost.
      const own = before?.find(one => threadOf(one) === worker.thread)
      const after = before && (own ?? '')
      const page = await ask(worker, 'ended', { ...query, after })
      return page.next === '' ? { ...page, next: own ?? '' } : page
    })
    const pages = await Promise.all(looks)
    const all = pages
      .flatMap(({ ended }) => ended)
      .toSorted((one, other) => one.endedAt - other.endedAt)
    const ended = all.slice(-(query.limit ?? all.length))
    const leftOut = pages.reduce((sum, one) => sum + one.leftOut, 0)
    return {
      ended,
      leftOut: leftOut + all.length - ended.length,
      gap: pages.some(({ gap }) => gap),
      next: pages.flatMap(({ next }) => (next === '' ? [] : [next])).join('_'),
      isFull: pages.some(({ isFull }) => isFull),
    }
  },

  /** Each has turns of its own; to which a client comes is known here. */
  explain: async (workers, query, ports) => {
    const views = workers.map(
      async worker => (await ask(worker, 'explain', query)).workers,
    )
    const all = (await Promise.all(views)).flat()
    return ports.get(query.listener)?.explained(query, all) ?? notThere
  },
}
