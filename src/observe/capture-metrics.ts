import type { RuleWork } from '../capture/family-rules.ts'
import type { RuleObserver } from '../capture/rule-capture.ts'
import { ipFamilies, type IpFamily } from '../util/ip.ts'
import { labelText, type OwnFamily, type Sample } from './exposition.ts'

interface Totals {
  changed: number
  replaced: number
  seconds: number
  repairs: number
  failedRepairs: number
}

const none = (): Totals => ({
  changed: 0,
  replaced: 0,
  seconds: 0,
  repairs: 0,
  failedRepairs: 0,
})

/** What was done to the kernel's rules since the process started. */
export class CaptureMetrics implements RuleObserver {
  readonly #totals: Readonly<Record<IpFamily, Totals>> = { IPv4: none(), IPv6: none() }

  synced(family: IpFamily, work: RuleWork, seconds: number): void {
    const totals = this.#totals[family]
    if (work !== 'nothing') totals[work] += 1
    totals.seconds += seconds
  }

  repaired(family: IpFamily, _what: string, error: string): void {
    this.#totals[family][error === '' ? 'repairs' : 'failedRepairs'] += 1
  }

  failed(): void {}

  get families(): readonly OwnFamily[] {
    return [
      {
        name: 'usher_capture_syncs_total',
        type: 'counter',
        help: 'Times rules of the kernel were written: only what changed, or all of them in one transaction.',
        samples: () =>
          this.#each(({ changed, replaced }) => [
            ['work="changed"', changed],
            ['work="replaced"', replaced],
          ]),
      },
      {
        name: 'usher_capture_sync_seconds_total',
        type: 'counter',
        help: 'Seconds that writing them took.',
        samples: () => this.#each(({ seconds }) => [['', seconds]]),
      },
      {
        name: 'usher_capture_repairs_total',
        type: 'counter',
        help: "Times somebody else changed Usher's rules, by whether they could be put back.",
        samples: () =>
          this.#each(({ repairs, failedRepairs }) => [
            ['result="ok"', repairs],
            ['result="failed"', failedRepairs],
          ]),
      },
    ]
  }

  #each(of: (totals: Totals) => readonly (readonly [string, number])[]): Sample[] {
    return ipFamilies.flatMap(family =>
      of(this.#totals[family]).map(([more, value]) => ({
        suffix: '',
        labels: [labelText({ ip_family: family }), more].filter(Boolean).join(','),
        value,
      })),
    )
  }
}
