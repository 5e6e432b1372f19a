import { type Cidr, parseCidr } from '../../util/cidr.ts'
import { shortHash } from '../../util/short-hash.ts'
import type { ChainPart } from './parts.ts'

/** Whether there is an address that a list of allowed clients keeps out. */
export const guards = (
  allowedClients: readonly string[] | undefined,
): allowedClients is readonly string[] =>
  allowedClients !== undefined && !allowedClients.some(holdsAll)

const holdsAll = (cidr: string): boolean => cidr.endsWith('/0')

/**
 * The chain that drops all other clients. VIPs with the same list share it: a set of
 * address . protocol . port . client-CIDR would do without chains, but nft 1.0.6 shows
 * changes of such sets as megabytes of its own memory (`nft monitor`).
 */
export const clientsChain = (allowedClients: readonly string[]): string => {
  return `clients-${shortHash(disjoint(allowedClients).join())}`
}

export const isClientsChain = (chain: string): boolean => chain.startsWith('clients-')

/** That chain; `field` is that of the client's address, as in `ip saddr`. */
export const clientsPart = (
  field: string,
  allowedClients: readonly string[],
): ChainPart => {
  const blocks = disjoint(allowedClients)
  const others = blocks.length === 0 ? '' : `${field} != { ${blocks.join(', ')} } `
  return {
    kind: 'chain',
    name: clientsChain(allowedClients),
    rules: [`${others}drop`],
  }
}

/**
 * CIDRs without those that lie within another, in one order: nft refuses an interval
 * that overlaps another. Two CIDRs are nested or have nothing in common, so that in the
 * order of their first address the one before is enough to compare with.
 */
export const disjoint = (cidrs: readonly string[]): readonly string[] => {
  const blocks = cidrs.flatMap(text => parseCidr(text) ?? []).toSorted(byFirstAddress)
  const kept: Cidr[] = []
  for (const block of blocks) {
    const before = kept.at(-1)
    if (before === undefined || !holds(before, block)) kept.push(block)
  }
  return kept.map(({ text }) => text)
}

const byFirstAddress = (a: Cidr, b: Cidr): number => {
  const at = a.words.findIndex((word, i) => word !== b.words[i])
  if (at === -1) return a.prefixLength - b.prefixLength
  return (a.words[at] ?? 0) - (b.words[at] ?? 0)
}

const holds = (outer: Cidr, inner: Cidr): boolean =>
  outer.words.every((word, i) => and(inner.words[i], outer.masks[i]) === word)

const and = (a = 0, b = 0): number => (a & b) >>> 0
