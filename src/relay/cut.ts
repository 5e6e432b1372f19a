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

const noKeys: ReadonlySet<string> = new Set()

/** Undefined: there is nothing to be done. */
export const cutOf = ({
  cut = [],
  paused = false,
  drained = [],
}: RelayListener): Cut | undefined => {
  const closes = new Map<string, DrainClose>(drained.map(one => [one.key, one.close]))
  const isIdleCut = (key: string): boolean => closes.get(key) === 'idle'
  if (cut === 'all') {
    const detail = paused ? 'paused' : 'cut'
    return { has: () => true, isIdleCut, dials: noKeys, detailOf: () => detail }
  }
  if (cut.length + closes.size === 0) return undefined
  const gone = new Set(cut)
  return {
    has: key => gone.has(key) || closes.get(key) === 'all',
    isIdleCut,
    dials: { has: key => gone.has(key) || closes.has(key) },
    detailOf: key => (gone.has(key) ? 'endpoint down or gone' : drainedDetail),
  }
}
