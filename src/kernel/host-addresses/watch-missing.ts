import type { Clock } from '../../util/clock.ts'
import { Canary, type CanaryDeps } from '../keeper/canary.ts'

/**
 * `HostAddresses.watch` by looking now and then; `missing` lists CIDRs and never rejects. Listing
 * 10 000 costs 20 to 40 ms of another core; one that is idle costs nothing.
 */
export const watchMissing = (
  clock: Clock,
  missing: () => Promise<readonly string[]>,
  damaged: (what: string) => void,
  notified: Pick<CanaryDeps<boolean>, 'sleeper' | 'isNotified'> = {},
): (() => void) => {
  const installed = { value: true, epoch: 0 }
  const findDamage = async (): Promise<string> => missingText(await missing())
  const canary = new Canary({ clock, installed, findDamage, damaged, ...notified })
  return () => canary.stop()
}

const missingText = (missing: readonly string[]): string => {
  const some = missing.slice(0, 3).join(', ')
  if (some === '') return ''
  return missing.length <= 3
    ? `taken away: ${some}`
    : `taken away: ${some} and ${missing.length - 3} more`
}
