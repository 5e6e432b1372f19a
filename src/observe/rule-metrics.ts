import type { KeeperObserver } from '../kernel/keeper/rule-keeper.ts'
import type { KernelSync, ProxierObserver } from '../kernel/proxier.ts'
import type { IpFamily } from '../util/ip.ts'
import { PlainHistogram } from './exposition.ts'
import { syncBuckets } from './sync-metrics.ts'

const newTotals = () => ({
  full: new PlainHistogram(syncBuckets),
  partial: new PlainHistogram(syncBuckets),
  rules: undefined as KernelSync['rules'],
  fullFailures: 0,
  partialFailures: 0,
  repairs: 0,
  failedRepairs: 0,
})

/** What a kernel mode or a capture did to the kernel's rules since the process started. */
export class RuleMetrics
  implements KeeperObserver, Pick<ProxierObserver, 'restoreFailed'>
{
  readonly families: Readonly<Record<IpFamily, ReturnType<typeof newTotals>>> = {
    IPv4: newTotals(),
    IPv6: newTotals(),
  }

  synced(family: IpFamily, { work, rules }: KernelSync, seconds: number): void {
    const totals = this.families[family]
    totals.rules = rules
    if (work !== 'nothing') totals[work].observe(seconds)
  }

  repaired(family: IpFamily, _what: string, error: string): void {
    this.families[family][error === '' ? 'repairs' : 'failedRepairs'] += 1
  }

  restoreFailed(family: IpFamily, work: 'partial' | 'full'): void {
    this.families[family][work === 'full' ? 'fullFailures' : 'partialFailures'] += 1
  }
}
