import { noKeys } from '../balance/pool.ts'
import type { DrainClose, RelayListener } from './relay.ts'

/**
 * Milliseconds in which nothing has moved on a connection that is closed as it is idle, to an
 * endpoint that is drained so: more than most clients take from an answer to their next question.
 */
export const idleBeforeCloseMs = 5000

/** What a change of a listener means for its open connections, and for its dials. */
export interface Cut {
  /** By the key of the endpoint: its open connections are to be reset. */
  has(key: string): boolean
  /** The same, as soon as nothing moves on them. */
  isIdleCut(key: string): boolean
  /** Dials there come to nothing. */
  readonly dials: Pick<ReadonlySet<string>, 'has'>
  /** What records say of one that is reset. */
  detailOf(key: string): string
}

export const drainedDetail = 'drained by an operator'

/** `before`: as it was, if it was there. Undefined: there is nothing to be done. */
export const cutOf = (spec: RelayListener, before?: RelayListener): Cut | undefined => {
  const { cut = [], paused = false, drained = [] } = spec
  const closes = new Map<string, DrainClose>(drained.map(one => [one.key, one.close]))
  const isIdleCut = (key: string): boolean => closes.get(key) === 'idle'
  if (cut === 'all') {
    const detail = paused ? 'paused' : 'cut'
    return { has: () => true, isIdleCut, dials: noKeys, detailOf: () => detail }
  }
  const gone = newlyCut(spec, before)
  if (gone.size + closes.size === 0) return undefined
  return {
    has: key => gone.has(key) || closes.get(key) === 'all',
    isIdleCut,
    dials: { has: key => gone.has(key) || closes.has(key) },
    detailOf: key => gone.get(key) ?? drainedDetail,
  }
}

/**
 * With what records say. Who is cut and who is picked are two questions: one that is picked all the
 * same is cut once, not whenever anything else of its listener changes.
 */
const newlyCut = (
  { endpoints, ...spec }: RelayListener,
  before: RelayListener | undefined,
): ReadonlyMap<string, string> => {
  const picked = new Set(endpoints.map(({ key }) => key))
  const isDue = (key: string, were: RelayListener['cut'] = []): boolean =>
    !picked.has(key) || (were !== 'all' && !were.includes(key))
  const { cut = [], backups = [] } = spec
  const down = cut === 'all' ? [] : cut.filter(key => isDue(key, before?.cut))
  const left = backups.filter(key => isDue(key, before?.backups))
  return new Map([
    ...left.map(key => [key, 'a preferred endpoint is back'] as const),
    ...down.map(key => [key, 'endpoint down or gone'] as const),
  ])
}
