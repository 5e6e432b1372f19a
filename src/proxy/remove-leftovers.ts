import { cleanUp, type Kind, type Stay } from '../kernel/cleanup/clean-up.ts'
import type { Problem } from '../model/snapshot.ts'
import type { Log } from '../observe/log.ts'

/** Of what may be thousands of lines, so many are named. */
const mostNamed = 20

export interface Leftovers {
  /** What runs, as in `mode iptables`. */
  readonly object: string
  readonly kinds: readonly Kind[]
  /** What ran before in this process, as in `nftables`: that its tool is gone means nothing. */
  readonly before: string
}

/**
 * Removes what other modes and captures have left on this host, once the one that runs
 * serves everything: until then clients are served by what was there. Gives what may be in
 * force yet. Never rejects.
 */
export const removeLeftovers = async (
  log: Log,
  { object, kinds, before }: Leftovers,
): Promise<readonly Problem[]> => {
  try {
    const { gone, stayed, hidden, unseen } = await cleanUp(kinds, { dryRun: false })
    if (gone.length > 0)
      log.info(
        { count: gone.length, removed: gone.slice(0, mostNamed) },
        'removed leftovers of another mode or capture',
      )
    const ofBefore = kinds.filter(({ name }) => before !== '' && name.includes(before))
    const lost = unseen.filter(line => ofBefore.some(({ name }) => line.startsWith(name)))
    const unknown = lost.length < ofBefore.length ? [] : lost
    const left = unknown.map(reason => ({ what: `left by ${before}`, reason }))
    return inForce(object, [...stayed, ...hidden, ...left])
  } catch (error) {
    return inForce(object, [{ what: 'leftovers', reason: (error as Error).message }])
  }
}

/** Problems of what could not be removed. */
export const inForce = (object: string, left: readonly Stay[]): readonly Problem[] => {
  const more = left.length > mostNamed ? `; so may ${left.length - mostNamed} more` : ''
  return left.slice(0, mostNamed).map(({ what, reason }) => ({
    object,
    field: what,
    message: `leftovers of another mode or capture may be in force; retrying (or run usher cleanup): ${reason}${more}`,
  }))
}
