import type { Test } from 'tap'
import { matrix, type Patience, tryCells } from '../e2e/capture/cells.ts'
import type { Cell, Manner } from '../e2e/capture/oracle-terms.ts'
import { faultLines } from '../e2e/capture/report.ts'
import { serviceNamed, type TestService } from '../e2e/capture/services.ts'
import type { Agents } from '../support/net/cluster-agents.ts'

/** An emulated processor takes its time, so what is not answered is waited for longer. */
const patience: Patience = { forAnswersMs: 20_000, forSilenceMs: 2500 }

/** Enough to see that clients of all kinds are served. */
export const fewServices: readonly TestService[] = [
  'plain',
  'no-endpoints',
  'loner',
  'on-node',
].map(serviceNamed)

const isOfFew = ({ service, vip }: Cell): boolean =>
  fewServices.includes(service) &&
  (vip === 'ClusterIP' || vip === 'node port, first address')

/** Dials them all, and compares who answered. */
export const allAreServed = async (
  t: Test,
  agents: Agents,
  manner: Manner,
  cells: readonly Cell[] = matrix.filter(isOfFew),
): Promise<void> => {
  const faults = faultLines(manner, await tryCells(cells, agents, manner, patience))
  t.comment(faults.join('\n'))
  t.equal(faults.length, 0, `${cells.length} cells are as they must be`)
}
