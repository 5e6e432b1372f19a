import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { Probe, RuleTables } from '../rule-table.ts'
import { type BackendChoice, chooseBackend } from './choose-backend.ts'
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
  const choose = (family: IpFamily) => chooseBackend(run, family, backend)
  return {
    name: 'iptables',
    probe: async family => {
      try {
        const { chosen } = await choose(family)
        await probeBackend(chosen, family)
        return { usable: true, detail: chosen.detail }
      } catch (error) {
        return { usable: false, detail: reasonOf(error) }
      }
    },
    table: family =>
      new IptablesTable({ run, clock, family, choose: () => choose(family) }),
  }
}

const reasonOf = (error: unknown): Probe['detail'] =>
  error instanceof ToolError || error instanceof Error ? error.message : String(error)
