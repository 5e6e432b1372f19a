import { shortHash } from '../../util/short-hash.ts'
import { isClientsChain } from '../nft/clients.ts'
import type { ChainPart, Part } from '../nft/parts.ts'
import { affinitySetOf, isPickChain } from './picks.ts'

/** A chain or a set that is in a table. */
export type Found = Pick<Part, 'kind' | 'name'>

/**
 * An empty chain that says by its name which sets, maps and flowtable the table was made with:
 * chains are all that nft lists without reading the elements of sets.
 */
export const layoutChain = (definitions: string): ChainPart => {
  return { kind: 'chain', name: `layout-${shortHash(definitions)}`, rules: [] }
}

export interface PartsThere {
  /** Left for Services by a process before. */
  readonly found: readonly Found[]
  /** Chains of others: one with a hook judges packets whatever leads to it. */
  readonly foreign: readonly Found[]
}

/** What is there besides `fixed`, by the names of chains. */
export const partsThere = (
  chains: readonly string[],
  fixed: readonly ChainPart[],
): PartsThere => {
  const names = new Set(fixed.map(({ name }) => name))
  const others = chains.filter(name => !names.has(name))
  return {
    found: others.filter(isOwn).flatMap((name): readonly Found[] => {
      const set = affinitySetOf(name)
      return set === undefined ? [chain(name)] : [chain(name), { kind: 'set', name: set }]
    }),
    foreign: others.filter(name => !isOwn(name)).map(chain),
  }
}

const isOwn = (name: string): boolean => isPickChain(name) || isClientsChain(name)

const chain = (name: string): Found => ({ kind: 'chain', name })
