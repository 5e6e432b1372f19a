import { afterIptables } from '../../kernel/nft/tables.ts'
import { iptablesTables } from '../../capture/iptables/iptables.ts'
import { nftablesTables } from '../../capture/nftables/nftables.ts'
import type { CaptureName } from '../../capture/fallback-capture.ts'
import type { RuleTables } from '../../capture/rule-table.ts'
import type { LocalAddresses } from '../../capture/local-addresses.ts'
import type { ProxyPorts } from '../../capture/proxy-ports.ts'
import type { RuleMetrics } from '../../observe/rule-metrics.ts'
import {
  type FamilyProbes,
  joinProbes,
  type Probe,
  probeFamilies,
} from '../../kernel/probe.ts'
import type { Stay } from '../../kernel/cleanup/leftover.ts'
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
export const probeRules = async (
  { addresses }: HostSystem,
  tables: RuleTables,
  family: IpFamily,
): Promise<Probe> => {
  const rules = await tables.probe(family)
  if (!rules.usable) return rules
  const own = await addresses.probe(family)
  return own.usable ? rules : own
}

export const probeAddresses = ({ addresses }: HostSystem): Promise<FamilyProbes> =>
  probeFamilies(family => addresses.probe(family))

export interface Probed extends Probe {
  readonly name: CaptureName
}

/** Everything there is to say of what works here, for `usher check`. */
export const probeAll = async (system: HostSystem): Promise<readonly Probed[]> => {
  const { nftables, iptables } = system
  const probes = {
    nftables: await probeFamilies(family => probeRules(system, nftables, family)),
    iptables: await probeFamilies(family => probeRules(system, iptables, family)),
    local: await probeAddresses(system),
  }
  return (['nftables', 'iptables', 'local'] as const).map(name => {
    const { usable, detail } = joinProbes(probes[name])
    return { name, usable, detail }
  })
}

/**
 * What an Usher before this one may have left, or a capture or mode `before`, by tables other than
 * `own`; gives what can't be done. Where a tool is missing nothing was left by it, but by `before`.
 */
export const withOtherTables = async (
  { system }: CaptureDeps,
  own: string,
  work: 'hold' | 'remove',
  before: string,
): Promise<readonly Stay[]> => {
  const others = [system.nftables, system.iptables].filter(({ name }) => name !== own)
  const one = async (tables: RuleTables, family: IpFamily): Promise<readonly Stay[]> => {
    try {
      await tables.table(family)[work]()
      return []
    } catch (error) {
      const isMissing = error instanceof ToolError && error.failure === 'missing'
      if ((isMissing && tables.name !== before) || isUnsupported(error)) return []
      const what = `rules of capture ${tables.name}, ${family}`
      return [{ what, why: (error as Error).message }]
    }
  }
  // Clients wait meanwhile.
  const left = others.flatMap(tables => ipFamilies.map(each => one(tables, each)))
  return (await Promise.all(left)).flat()
}
