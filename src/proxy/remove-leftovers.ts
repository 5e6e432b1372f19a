import { cleanUp } from '../kernel/cleanup/clean-up.ts'
import type { Kind } from '../kernel/cleanup/leftover.ts'
import type { Log } from '../observe/log.ts'

/** Of what may be thousands of lines, so many are named. */
const mostNamed = 20

/**
 * Removes what other modes and captures have left on this host, once the one that runs
 * serves everything: until then clients are served by what was there. Never rejects.
 */
export const removeLeftovers = async (
  log: Log,
  kinds: readonly Kind[],
): Promise<void> => {
  try {
    const { gone, stayed, hidden } = await cleanUp(kinds, { dryRun: false })
    if (gone.length > 0)
      log.info(
        { count: gone.length, removed: gone.slice(0, mostNamed) },
        'what another mode or capture left is gone',
      )
    const left = [...stayed, ...hidden]
    if (left.length > 0)
      log.warn(
        { count: left.length, left: left.slice(0, mostNamed) },
        'what another mode or capture left may still be there; usher cleanup says more',
      )
  } catch (err) {
    log.warn({ err }, 'what another mode or capture left may still be there')
  }
}
