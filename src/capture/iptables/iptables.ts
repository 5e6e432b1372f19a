import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { RuleTables } from '../rule-table.ts'
import type { BackendMode } from './backend.ts'
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
  // What a probe found to work; tables are made after it.
  const proven = new Map<IpFamily, BackendMode>()
  const choose = (family: IpFamily) =>
    chooseBackend(run, family, proven.get(family) ?? backend)
  return {
    name: 'iptables',
    admitsHealthChecks: true,
    probe: async family => {
      const probe = await probeFamily(run, family, backend)
      if (probe.mode !== undefined) proven.set(family, probe.mode)
      return { usable: probe.mode !== undefined, detail: probe.detail }
    },
    table: family =>
      new IptablesTable({ run, clock, family, choose: () => choose(family) }),
  }
}

/** With `auto`, also a back end that is not the system's choice may be the one that works. */
const probeFamily = async (
  run: RunTool,
  family: IpFamily,
  choice: BackendChoice,
): Promise<{ readonly mode?: BackendMode; readonly detail: string }> => {
  try {
    const { chosen, others } = await chooseBackend(run, family, choice)
    const reasons: string[] = []
    for (const backend of choice === 'auto' ? [chosen, ...others] : [chosen]) {
      const { mode, detail } = backend
      const reason = await probeBackend(backend, family).then(() => '', reasonOf)
      if (reason === '') return { mode, detail }
      // That passes, and what is chosen in its stead would be for good.
      if (isLocked.test(reason))
        return { mode, detail: `${detail}, not tried: ${reason}` }
      reasons.push(reason)
    }
    return { detail: reasons[0] ?? '' }
  } catch (error) {
    return { detail: reasonOf(error) }
  }
}

/** What iptables says when somebody else has held its lock for all the time it waited. */
const isLocked = /can't lock|xtables lock/i

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
