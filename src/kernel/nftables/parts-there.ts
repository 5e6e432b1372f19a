import { createHash } from 'node:crypto'
import type { ChainPart, Part } from '../nft/parts.ts'
import { affinitySetOf } from './picks.ts'

/** A chain or a set that is in a table. */
export type Found = Pick<Part, 'kind' | 'name'>

/**
 * An empty chain that says by its name which sets, maps and flowtable the table was made with:
 * chains are all that nft lists without reading the elements of sets.
 */
export const layoutChain = (definitions: string): ChainPart => {
  const hash = createHash('sha256').update(definitions).digest('hex').slice(0, 16)
  return { kind: 'chain', name: `layout-${hash}`, rules: [] }
}

/** What a process before has left there for Services, by the names of chains. */
export const partsThere = (
  chains: readonly string[],
  fixed: readonly ChainPart[],
): readonly Found[] => {
  const names = new Set(fixed.map(({ name }) => name))
  return chains
    .filter(name => !names.has(name))
    .flatMap((name): readonly Found[] => {
      const set = affinitySetOf(name)
      const chain = { kind: 'chain', name } as const
      return set === undefined ? [chain] : [chain, { kind: 'set', name: set }]
    })
}
