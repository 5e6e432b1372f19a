import type { Clock, Timer } from '../../util/clock.ts'
import { LookPace } from '../../util/look-pace.ts'

/**
 * `HostAddresses.watch` by looking now and then; `missing` lists CIDRs and never rejects. Listing
 * 10 000 costs 20 to 40 ms of another core; one that is idle costs nothing.
 */
export const lookAgain = (
  clock: Clock,
  missing: () => Promise<readonly string[]>,
  damaged: (what: string) => void,
): (() => void) => {
  const pace = new LookPace()
  let timer: Timer | undefined
  let ended = false
  const look = async (): Promise<void> => {
    const gone = await missing()
    if (ended) return
    again(gone.length > 0)
    if (gone.length > 0) damaged(missingText(gone))
  }
  const again = (hasFound: boolean): void => {
    timer = clock.setTimeout(() => void look(), pace.next(clock.now(), hasFound))
    timer.unref?.()
  }
  again(false)
  return () => {
    ended = true
    clock.clearTimeout(timer)
  }
}

const missingText = (missing: readonly string[]): string => {
  const some = missing.slice(0, 3).join(', ')
  return missing.length <= 3
    ? `taken away: ${some}`
    : `taken away: ${some} and ${missing.length - 3} more`
}
