import * as v from 'valibot'
import type { BalanceOptions } from '../../model/traffic.ts'
import { isNot } from '../../util/schema.ts'
import { durationText, msOf, type Given } from './option-kinds.ts'

const kinds = ['round-robin', 'least-connections', 'random', 'maglev'] as const

const slowStartBounds = [1000, 3_600_000] as const

/** Which endpoint a new connection goes to. */
export const balanceOptions = {
  balance: v.pipe(
    v.picklist(kinds, isNot('round-robin, least-connections, random or maglev')),
    v.description(
      'Which endpoint a new connection goes to; `round-robin` by default. `least-connections`: the one with the fewest connections of all workers. `maglev`: by the address of the client alone, the same on every node and after a restart.',
    ),
    v.examples(['least-connections']),
  ),
  slowStart: v.pipe(
    durationText(...slowStartBounds, 'from 1s to 1h', '30s'),
    v.description(
      'Off by default. How long an endpoint that was down for 10 s or more, or is new beside others, takes to get its full share, beginning with a tenth. Not with `maglev`.',
    ),
  ),
}

/** Undefined where nothing is asked for. */
export const decodeBalance = (
  raw: Given<typeof balanceOptions>,
): BalanceOptions | undefined => {
  const { balance, slowStart } = raw
  if (balance === undefined && slowStart === undefined) return undefined
  return {
    by: balance ?? 'round-robin',
    ...(slowStart !== undefined && { slowStartMs: msOf(slowStart) }),
  }
}
