import { nodeAddresses } from '../../support/net/addresses.ts'
import type { Outcome } from '../../support/net/outcome.ts'
import { byIptables } from './oracle-iptables.ts'
import { byNftables } from './oracle-nftables.ts'
import { byIpvs } from './oracle-ipvs.ts'
import { byUserspace } from './oracle-userspace.ts'
import type { Cell, Expected, Manner, SeenAs } from './oracle-terms.ts'

/**
 * What a client must meet, from Kubernetes' documentation alone: shares no code with what
 * it judges.
 */
export const expected = (cell: Cell, manner: Manner): Expected => {
  if (manner === 'iptables') return byIptables(cell)
  if (manner === 'nftables') return byNftables(cell)
  return manner === 'ipvs' ? byIpvs(cell) : byUserspace(cell, manner)
}

/** Undefined when the outcome is what was expected. */
export const fault = (
  cell: Cell,
  manner: Manner,
  outcome: Outcome,
): string | undefined => {
  const wanted = expected(cell, manner)
  if (wanted.result === 'answer') {
    const names = wanted.from.join(' or ')
    if (outcome.result !== 'answer') return `expected ${names}, got ${said(outcome)}`
    if (!wanted.from.some(name => name === outcome.backend))
      return `expected ${names}, got ${outcome.backend}`
    return isSeenAs(wanted.as, outcome)
      ? undefined
      : `expected to be seen as the ${wanted.as}, ${outcome.own} was as ${outcome.seen}`
  }
  const { result } = outcome
  // A process of the node is told by its own kernel that its datagram was dropped.
  const heard = result === 'blocked' && cell.from === 'node' ? 'timeout' : result
  return heard === wanted.result
    ? undefined
    : `expected ${wanted.result}, got ${said(outcome)}`
}

const isSeenAs = (as: SeenAs, { own, seen }: Outcome): boolean =>
  as === 'client' ? seen === own : nodeAddresses.has(seen)

const said = ({ result, backend, ms }: Outcome): string =>
  `${result}${backend === '' ? '' : ` of ${backend}`} after ${ms} ms`
