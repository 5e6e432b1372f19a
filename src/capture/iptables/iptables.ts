import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { RuleTables } from '../rule-table.ts'
import type { BackendChoice } from '../../kernel/xtables/choose-backend.ts'
import { provenBackend } from '../../kernel/xtables/proven-backend.ts'
import { IptablesTable } from './iptables-table.ts'
import { probeBackend } from './probe.ts'

export interface IptablesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default `auto`: as the system has it, or as others of Kubernetes do. */
  readonly backend?: BackendChoice
}

/**
 * Rules by iptables and ip6tables (1.6.2 or newer: `iptables-restore -w`), by either back
 * end. A packet's way, and which chains there are: docs/capture.md.
 */
export const iptablesTables = (deps: IptablesDeps): RuleTables => {
  const { run, clock, backend = 'auto' } = deps
  const backends = provenBackend(run, backend, probeBackend)
  return {
    name: 'iptables',
    admitsHealthChecks: true,
    probe: backends.probe,
    table: family =>
      new IptablesTable({ run, clock, family, choose: () => backends.choose(family) }),
  }
}
