import type { Edges } from './edge-index.ts'

/** Services in a row, each the other's endpoint; no real cluster has so many. */
const mostHops = 64

/**
 * The endpoints that close a ring, or a row of more than 64, by the id of their listener.
 * Pure; the same edges give the same answer in whatever order they come.
 */
export const cutRings = (
  edges: ReadonlyMap<string, Edges>,
): ReadonlyMap<string, ReadonlySet<string>> => {
  const cuts = new Map<string, Set<string>>()
  const settled = new Set<string>()
  const passing = new Set<string>()
  const isEnd = (id: string): boolean => settled.has(id) || !edges.has(id)
  const settle = (id: string): void => {
    passing.add(id)
    for (const [endpoint, target] of edges.get(id) ?? []) {
      const tooFar = passing.size >= mostHops
      if (!passing.has(target) && !isEnd(target) && !tooFar) settle(target)
      if (isEnd(target)) continue
      cuts.set(id, (cuts.get(id) ?? new Set()).add(endpoint))
    }
    passing.delete(id)
    settled.add(id)
  }
  for (const id of [...edges.keys()].toSorted()) if (!settled.has(id)) settle(id)
  return cuts
}
