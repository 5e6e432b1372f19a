import type { Clock, Timer } from '../../util/clock.ts'

/** Listing 10 000 costs 20 to 40 ms of another core; one that is idle costs nothing. */
const lookEveryMs = 4000

/** `HostAddresses.watch` by looking every 4 s; `missing` lists CIDRs and never rejects. */
export const lookAgain = (
  clock: Clock,
  missing: () => Promise<readonly string[]>,
  damaged: (what: string) => void,
): (() => void) => {
  let timer: Timer | undefined
  let ended = false
  const look = async (): Promise<void> => {
    const gone = await missing()
    if (ended) return
    again()
    if (gone.length > 0) damaged(missingText(gone))
  }
  const again = (): void => {
    timer = clock.setTimeout(() => void look(), lookEveryMs)
    timer.unref?.()
  }
  again()
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
