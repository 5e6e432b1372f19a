import type { RelayListener } from './relay.ts'

/** Which open connections of a listener are to be reset, and what their records say. */
export interface Cut {
  /** By the key of the endpoint. */
  has(key: string): boolean
  readonly detail: string
}

/** Undefined: none. */
export const cutOf = ({ cut = [], paused = false }: RelayListener): Cut | undefined => {
  if (cut === 'all') return { has: () => true, detail: paused ? 'paused' : 'cut' }
  if (cut.length === 0) return undefined
  const keys = new Set(cut)
  return { has: key => keys.has(key), detail: 'endpoint down or gone' }
}
