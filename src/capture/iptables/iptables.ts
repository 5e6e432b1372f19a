import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { RuleTables } from '../rule-table.ts'
import type { BackendChoice } from '../../kernel/xtables/choose-backend.ts'
import { provenBackend } from '../../kernel/xtables/choose-backend.ts'
import { IptablesTable } from './iptables-table.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { Backend } from '../../kernel/xtables/backend.ts'
import { fixedChains } from './fixed-chains.ts'
import { tryLines } from '../../kernel/xtables/try-lines.ts'
import type { TableName } from '../../kernel/xtables/wanted.ts'
import { entriesOf, groups } from './rule-entries.ts'
import type { VipRule } from '../vip-rule.ts'

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

/** Rejects with ToolError when the kernel or the tool doesn't know a rule Usher uses. */
const probeBackend = (backend: Backend, family: IpFamily): Promise<void> =>
  tryLines(backend, {
    filter: sampleLines('filter', family),
    nat: sampleLines('nat', family),
  })

/** All matches and targets. */
const sampleLines = (table: TableName, family: IpFamily): readonly string[] => {
  const address = family === 'IPv4' ? '192.0.2.1' : '2001:db8::1'
  const settings = {
    proxyAddress: address,
    nodePortCidrs: undefined,
    podCidrs: [],
    healthCheckPorts: [1],
  }
  const fixed = fixedChains(settings, family)
    .filter(chain => chain.table === table)
    .flatMap(({ lines }) => lines)
  const rule: VipRule = {
    key: '',
    name: 'default/probe',
    family,
    kind: 'ExternalIP',
    address,
    protocol: 'TCP',
    port: 1,
    to: { address, port: 1 },
    outside: 'drop',
    fromNode: 'drop',
    allowedClients: undefined,
  }
  const entries = [rule, { ...rule, protocol: 'UDP' as const }]
    .flatMap(entriesOf)
    .filter(({ group }) => groups[group].table === table)
  return [...fixed, ...entries.map(({ line }) => line)]
}
