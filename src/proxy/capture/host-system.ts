import { afterIptables } from '../../kernel/nft/tables.ts'
import { iptablesTables } from '../../capture/iptables/iptables.ts'
import { nftablesTables } from '../../capture/nftables/nftables.ts'
import type { Probed } from '../../capture/choose-capture.ts'
import type { RuleTables, RuleTable } from '../../capture/rule-table.ts'
import type { LocalAddresses } from '../../capture/local-addresses.ts'
import type { ProxyPorts } from '../../capture/proxy-ports.ts'
import type { RuleMetrics } from '../../observe/rule-metrics.ts'
import {
  type FamilyProbes,
  joinProbes,
  type Probe,
  probeFamilies,
} from '../../kernel/probe.ts'
import type { HostAddresses } from '../../kernel/host-addresses/host-addresses.ts'
import { linuxHostAddresses } from '../../kernel/host-addresses/linux.ts'
import { windowsHostAddresses } from '../../kernel/host-addresses/windows.ts'
import type { Clock } from '../../util/clock.ts'
import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import { isUnsupported, StoppableTools, ToolError } from '../../kernel/run-tool.ts'
import type { Shared } from '../options.ts'

/** What of the system captures are made with. */
export interface HostSystem {
  /** By which all of it is done. */
  readonly tools: StoppableTools
  readonly addresses: HostAddresses
  readonly nftables: RuleTables
  readonly iptables: RuleTables
}

/** What captures are made with. */
export interface CaptureDeps extends Pick<
  Shared,
  'options' | 'clock' | 'log' | 'facts' | 'resync'
> {
  readonly metrics: RuleMetrics
  readonly system: HostSystem
  readonly localAddresses: LocalAddresses
  readonly proxyPorts: ProxyPorts
  /** A kernel mode of this process leads traffic, too: the host is its, and what it has stays. */
  readonly isBesideKernelMode: boolean
}

export interface HostSystemDeps {
  readonly clock: Clock
  /** For now damage to the rules would not be noticed, because of `why`. */
  readonly onBlind?: (why: string) => void
  /** As `process.platform`. */
  readonly platform?: string
  /** See CaptureDeps. */
  readonly isBesideKernelMode?: boolean
}

export const hostSystem = ({
  clock,
  onBlind,
  platform,
  isBesideKernelMode = false,
}: HostSystemDeps): HostSystem => {
  const tools = new StoppableTools()
  const deps = { run: tools.run, clock }
  const isWindows = (platform ?? process.platform) === 'win32'
  return {
    tools,
    addresses: isWindows ? windowsHostAddresses(deps) : linuxHostAddresses(deps),
    nftables: nftablesTables({
      ...deps,
      ...(onBlind && { onBlind }),
      ...(isBesideKernelMode && { natPriority: afterIptables }),
    }),
    iptables: iptablesTables(deps),
  }
}

/** Whether rules work, and an address of Usher's own for them to lead to. */
export const probeRules = (
  { addresses }: HostSystem,
  tables: RuleTables,
): Promise<FamilyProbes> =>
  probeFamilies(async family => {
    const rules = await tables.probe(family)
    if (!rules.usable) return rules
    const own = await addresses.probe(family)
    return own.usable ? rules : own
  })

export const probeAddresses = ({ addresses }: HostSystem): Promise<FamilyProbes> =>
  probeFamilies(family => addresses.probe(family))

/** Everything there is to say of what works here, for `usher check`. */
export const probeAll = async (system: HostSystem): Promise<readonly Probed[]> => {
  const { nftables, iptables } = system
  const probes = {
    nftables: await probeRules(system, nftables),
    iptables: await probeRules(system, iptables),
    local: await probeAddresses(system),
  }
  return (['nftables', 'iptables', 'local'] as const).map(name => {
    const { usable, detail } = joinProbes(probes[name])
    return { name, usable, detail }
  })
}

export const familiesWhere = (
  probes: FamilyProbes,
  isWanted: (probe: Probe) => boolean,
): readonly IpFamily[] => ipFamilies.filter(family => isWanted(probes[family]))

/**
 * What an Usher before this one may have left, which took another capture than `own`. What
 * can't be done is logged; where a tool is missing nothing was left by it.
 */
export const withOtherTables = async (
  { system, log }: CaptureDeps,
  own: string,
  work: (table: RuleTable) => Promise<void>,
): Promise<void> => {
  const others = [system.nftables, system.iptables].filter(({ name }) => name !== own)
  const one = async (tables: RuleTables, family: IpFamily): Promise<void> => {
    await work(tables.table(family)).catch((error: unknown) => {
      if (error instanceof ToolError && error.failure === 'missing') return
      if (isUnsupported(error)) return
      const why = (error as Error).message
      log.warn({ capture: tables.name, family, why }, 'old rules may still be there')
    })
  }
  // Clients wait meanwhile.
  await Promise.all(others.flatMap(tables => ipFamilies.map(each => one(tables, each))))
}
