import type { RuleWork } from '../capture/family-rules.ts'
import type { RuleObserver } from '../capture/rule-capture.ts'
import type { KernelSync } from '../kernel/proxier.ts'
import type { IpFamily } from '../util/ip.ts'
import { PlainHistogram } from './exposition.ts'
import { syncBuckets } from './sync-metrics.ts'

type ByFamily<T> = Readonly<Record<IpFamily, T>>

const newCapture = () => ({
  changed: 0,
  replaced: 0,
  seconds: 0,
  repairs: 0,
  failedRepairs: 0,
})

/** What a capture did to the kernel's rules since the process started. */
export class CaptureMetrics implements RuleObserver {
  readonly families: ByFamily<ReturnType<typeof newCapture>> = {
    IPv4: newCapture(),
    IPv6: newCapture(),
  }

  synced(family: IpFamily, work: RuleWork, seconds: number): void {
    const totals = this.families[family]
    if (work !== 'nothing') totals[work] += 1
    totals.seconds += seconds
  }

  repaired(family: IpFamily, _what: string, error: string): void {
    this.families[family][error === '' ? 'repairs' : 'failedRepairs'] += 1
  }

  failed(): void {}
}

interface KernelTotals {
  readonly full: PlainHistogram
  readonly partial: PlainHistogram
  rules: KernelSync['rules'] | undefined
  fullFailures: number
  partialFailures: number
  repairs: number
}

const newKernel = (): KernelTotals => ({
  full: new PlainHistogram(syncBuckets),
  partial: new PlainHistogram(syncBuckets),
  rules: undefined,
  fullFailures: 0,
  partialFailures: 0,
  repairs: 0,
})

/** What kube-proxy measures of its kernel modes, and repairs. */
export class KernelMetrics {
  readonly families: ByFamily<KernelTotals> = { IPv4: newKernel(), IPv6: newKernel() }

  synced(family: IpFamily, { work, rules }: KernelSync, seconds: number): void {
    const totals = this.families[family]
    totals.rules = rules
    if (work !== 'nothing') totals[work].observe(seconds)
  }

  repaired(family: IpFamily): void {
    this.families[family].repairs += 1
  }

  restoreFailed(family: IpFamily, work: 'partial' | 'full'): void {
    this.families[family][work === 'full' ? 'fullFailures' : 'partialFailures'] += 1
  }
}
