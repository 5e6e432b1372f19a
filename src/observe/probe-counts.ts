/** A path for health checks, such as the kubelet's. */
export interface Probe {
  /** As in the label `name` of kubernetes_healthcheck: `ping`, `proxier`. */
  readonly check: 'ping' | 'proxier'
  readonly path: 'healthz' | 'livez'
}

export interface Tally {
  readonly probe: Probe
  /** How many answers had a status code. */
  readonly codes: Map<number, number>
  /** Status code of the last. */
  last: number
}

/** Counts what probes were answered: of the health server, and `/healthz` of metrics. */
export class ProbeCounts {
  /** By `check path`. */
  readonly tallies = new Map<string, Tally>()

  answered(probe: Probe, code: number): void {
    const key = `${probe.check} ${probe.path}`
    const tally = this.tallies.get(key) ?? { probe, codes: new Map(), last: code }
    this.tallies.set(key, tally)
    tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1)
    tally.last = code
  }
}
