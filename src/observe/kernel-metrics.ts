import type { KernelSync, RuleCount } from '../kernel/proxier.ts'
import { ipFamilies, type IpFamily } from '../util/ip.ts'
import { labelText, type OwnFamily, type Sample } from './exposition.ts'
import { PlainHistogram } from './plain-histogram.ts'
import { syncBuckets } from './sync-metrics.ts'

interface Totals {
  readonly full: PlainHistogram
  readonly partial: PlainHistogram
  rules: KernelSync['rules'] | undefined
  fullFailures: number
  partialFailures: number
  repairs: number
}

const none = (): Totals => ({
  full: new PlainHistogram(syncBuckets),
  partial: new PlainHistogram(syncBuckets),
  rules: undefined,
  fullFailures: 0,
  partialFailures: 0,
  repairs: 0,
})

const tables = ['filter', 'nat'] as const

/** What kube-proxy measures of its kernel modes, under its names, and repairs. */
export class KernelMetrics {
  readonly #totals: Readonly<Record<IpFamily, Totals>> = { IPv4: none(), IPv6: none() }

  synced(family: IpFamily, { work, rules }: KernelSync, seconds: number): void {
    const totals = this.#totals[family]
    totals.rules = rules
    if (work !== 'nothing') totals[work].observe(seconds)
  }

  repaired(family: IpFamily): void {
    this.#totals[family].repairs += 1
  }

  restoreFailed(family: IpFamily, work: 'partial' | 'full'): void {
    this.#totals[family][work === 'full' ? 'fullFailures' : 'partialFailures'] += 1
  }

  /** Of the mode that runs: those of others would never move. */
  families(mode: 'iptables' | 'ipvs'): readonly OwnFamily[] {
    return [
      ...(mode === 'iptables' ? this.#ofIptables : []),
      {
        name: 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
        type: 'counter',
        help: 'Times iptables-restore refused the rules.',
        samples: () => this.#each(totals => totals.fullFailures + totals.partialFailures),
      },
      {
        name: 'usher_kernel_repairs_total',
        type: 'counter',
        help: "Times somebody else took away Usher's rules, and they were written again.",
        samples: () => this.#each(({ repairs }) => repairs),
      },
    ]
  }

  readonly #ofIptables: readonly OwnFamily[] = [
    this.#durations('full', 'Time it took to write all rules.'),
    this.#durations('partial', 'Time it took to write the rules of what changed.'),
    this.#counts('total', 'Rules that there are.', ({ total }) => total),
    this.#counts('last', 'Rules that the last sync wrote.', ({ written }) => written),
    {
      name: 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
      type: 'counter',
      help: 'Times iptables-restore refused the rules of what changed; all rules were written then.',
      samples: () => this.#each(({ partialFailures }) => partialFailures),
    },
  ]

  #durations(work: 'full' | 'partial', help: string): OwnFamily {
    return {
      name: `kubeproxy_sync_${work}_proxy_rules_duration_seconds`,
      type: 'histogram',
      help,
      samples: () =>
        ipFamilies.flatMap(name =>
          this.#totals[name][work].samples(labelText({ ip_family: name })),
        ),
    }
  }

  #counts(
    which: 'total' | 'last',
    help: string,
    of: (count: RuleCount) => number,
  ): OwnFamily {
    return {
      name: `kubeproxy_sync_proxy_rules_iptables_${which}`,
      type: 'gauge',
      help,
      samples: () =>
        ipFamilies.flatMap(name => {
          const { rules } = this.#totals[name]
          if (rules === undefined) return []
          return tables.map(table => ({
            suffix: '',
            labels: labelText({ table, ip_family: name }),
            value: of(rules[table]),
          }))
        }),
    }
  }

  #each(of: (totals: Totals) => number): Sample[] {
    return ipFamilies.map(family => ({
      suffix: '',
      labels: labelText({ ip_family: family }),
      value: of(this.#totals[family]),
    }))
  }
}
