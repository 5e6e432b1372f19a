import { labelText } from './exposition.ts'
import type { OwnFamily, Sample } from './exposition.ts'

/** A path that somebody asks again and again to learn how Usher is. */
export interface Probe {
  /** As in the label `name` of kubernetes_healthcheck: `ping`, `proxier`. */
  readonly check: 'ping' | 'proxier'
  readonly path: 'healthz' | 'livez'
}

interface Tally {
  readonly probe: Probe
  readonly codes: Map<number, number>
  last: number
}

/** Counts what probes were answered: of the health server, and `/healthz` of metrics. */
export class ProbeCounts {
  readonly #tallies = new Map<string, Tally>()

  answered(probe: Probe, code: number): void {
    const key = `${probe.check} ${probe.path}`
    const tally = this.#tallies.get(key) ?? { probe, codes: new Map(), last: code }
    this.#tallies.set(key, tally)
    tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1)
    tally.last = code
  }

  /** kube-proxy's own counters. */
  readonly families: readonly OwnFamily[] = (['healthz', 'livez'] as const).map(path => ({
    name: `kubeproxy_proxy_${path}_total`,
    type: 'counter',
    help: `Answers of /${path} on the health address, by HTTP status code.`,
    samples: () => this.#byCode(path),
  }))

  /** What `/metrics/slis` shows (KEP-3466). */
  readonly slis: readonly OwnFamily[] = [
    {
      name: 'kubernetes_healthcheck',
      type: 'gauge',
      help: 'Whether the last answer of a health check was a good one, 1 or 0.',
      samples: () =>
        [...this.#tallies.values()].map(({ probe, last }) => ({
          suffix: '',
          labels: labelText({ name: probe.check, type: probe.path }),
          value: last === 200 ? 1 : 0,
        })),
    },
    {
      name: 'kubernetes_healthchecks_total',
      type: 'counter',
      help: 'Answers of all health checks, by result.',
      samples: () => [...this.#tallies.values()].flatMap(byResult),
    },
  ]

  #byCode(path: Probe['path']): Sample[] {
    const tally = this.#tallies.get(`proxier ${path}`)
    return [...(tally?.codes ?? [])].map(([code, value]) => ({
      suffix: '',
      labels: labelText({ code: String(code) }),
      value,
    }))
  }
}

const byResult = ({ probe, codes }: Tally): Sample[] => {
  const count = { success: 0, error: 0 }
  for (const [code, number] of codes) count[code === 200 ? 'success' : 'error'] += number
  return Object.entries(count)
    .filter(([, value]) => value > 0)
    .map(([status, value]) => ({
      suffix: '',
      labels: labelText({ name: probe.check, status, type: probe.path }),
      value,
    }))
}
