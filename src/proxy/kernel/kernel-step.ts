import { SocketLock } from '../../kernel/keeper/host-lock.ts'
import {
  interfaceAddresses,
  nodeAddresses as allNodeAddresses,
} from '../../capture/local-addresses.ts'
import { hostKinds } from '../../kernel/cleanup/host-kinds.ts'
import type { KeptObjects } from '../../kernel/cleanup/kept-objects.ts'
import { bridgeWarning } from '../../kernel/bridges.ts'
import { ConntrackCleaner } from '../../kernel/conntrack.ts'
import { tableName } from '../../kernel/nft/tables.ts'
import { udpVipsLeft } from '../../kernel/vips-left.ts'
import type {
  ProxierKind,
  ProxierObserver,
  KernelSettings,
  LocalDetector,
  RelaySettings,
} from '../../kernel/proxier.ts'
import { StoppableTools, type RunTool, runTool } from '../../kernel/run-tool.ts'
import { hostSysctls, type Sysctls } from '../../kernel/sysctls.ts'
import {
  probeFamilies,
  unusableReasons,
  joinProbes,
  type Probe,
} from '../../kernel/probe.ts'
import type { ModeStep } from '../../mode/fallback-mode.ts'
import { KernelMode } from '../../mode/kernel-mode.ts'
import { kernelLog } from '../../observe/rule-log.ts'
import type { RuleMetrics } from '../../observe/rule-metrics.ts'
import { ipFamilies, type IpFamily, isLoopback } from '../../util/ip.ts'
import type { Shared, ClusterFacts } from '../options.ts'
import { removeLeftovers } from '../remove-leftovers.ts'
import { kernelSetup } from './kernel-setup.ts'
import { cidrsOfFamily } from '../../util/cidr.ts'
import { iptablesKind } from '../../kernel/iptables/iptables-proxier.ts'
import { hostCounters } from '../../kernel/iptables/packet-counters.ts'
import { spawnMonitor } from '../../kernel/nft/monitor.ts'
import { ipvsKind } from '../../kernel/ipvs/ipvs-proxier.ts'
import { nftablesKind, servicesMonitor } from '../../kernel/nftables/nftables-kind.ts'
import { guardedNftables } from '../../capture/nftables.ts'
import { kernelModeNames, type KernelOptions } from '../../mode/mode.ts'
import type { Clock } from '../../util/clock.ts'
import { readIfThere } from '../../util/read-text.ts'

export interface KernelStepDeps extends Pick<Shared, 'clock' | 'log' | 'resync'> {
  readonly version: string
  readonly options: KernelOptions
  readonly facts: KernelFacts
  readonly metrics: RuleMetrics
  readonly sysctls?: Sysctls
  /** Whether a relay is beside the mode: then what captures have put into the system is in use. */
  readonly hasRelay?: () => boolean
}

/** A probe takes a second; a tool that hangs is given 30 s, and there are several. */
const slowMs = 10_000

/** A kernel mode, from the kind of proxier that it runs. */
export const kernelStep = (
  name: ProxierKind['name'],
  deps: KernelStepDeps,
  makeKind: (deps: KindDeps) => ProxierKind,
): ModeStep => {
  const { clock, log, options, facts, metrics, hasRelay = () => false } = deps
  const kernelEvents = kernelLog(log, name)
  const setup = kernelSetup(name, deps)
  const observer: ProxierObserver = {
    restoreFailed: (family, work) => {
      metrics.restoreFailed(family, work)
      kernelEvents.restoreFailed(family, work)
    },
    failed: (what, reason) => kernelEvents.failed(what, reason),
  }
  const setSysctl = (sysctl: string, value: string) => setup.set(sysctl, value)
  const tools = new StoppableTools()
  const kind = makeKind({ run: tools.run, observer, setSysctl })
  const conntrack = new ConntrackCleaner({
    clock,
    // Flows go to endpoints: there is no one address by which they are all known.
    proxyAddress: () => undefined,
    ownAddresses: interfaceAddresses,
    nodePortCidrs: facts.nodePortCidrs,
    failed: reason => kernelEvents.failed('ending stale UDP flows', reason),
  })
  const lock = () =>
    new SocketLock({
      clock,
      self: `usher ${deps.version}, pid ${process.pid}`,
      waiting: holder =>
        log.warn(
          { holder },
          'another Usher programs the kernel on this node; waiting for it to end',
        ),
    })
  const kept = (): Partial<KeptObjects> => {
    const captures = hasRelay()
    return {
      ...kind.owns,
      nftablesTable: one =>
        kind.owns.nftablesTable(one) || (captures && one === tableName),
      captures,
      sysctl: each => setup.has(each),
    }
  }
  return {
    name,
    probe: async () => {
      const slow = clock.setTimeout(
        () => log.warn({ mode: name }, 'testing this mode is taking a long time'),
        slowMs,
      )
      return probeFamilies(family => kind.probe(family)).finally(() =>
        clock.clearTimeout(slow),
      )
    },
    start: async (probes, before = '') => {
      const warning = await bridgeWarning()
      if (warning !== '')
        log.warn({ mode: name, why: warning }, 'pods may not reach Services')
      return new KernelMode({
        name,
        clock,
        proxiers: new Map(ipFamilies.map(family => [family, kind.proxier(family)])),
        unusable: unusableReasons(probes),
        probe: family => kind.probe(family),
        lock: lock(),
        tools,
        settings: family => ({
          ...kernelSettings(name, options, facts, family),
          ...(hasRelay() && { relay: relaySettings(facts, family) }),
        }),
        prepare: () => setup.prepare(),
        guard: stands => setup.guard(stands),
        refused: () => setup.refused(),
        removeOthers: () =>
          removeLeftovers(log, {
            object: `mode ${name}`,
            kinds: hostKinds(kept(), tools.run),
            before,
          }),
        conntrack,
        left: family => udpVipsLeft(tools.run, family),
        resync: deps.resync,
        observers: [metrics, kernelEvents],
      })
    },
  }
}

export interface KernelFacts
  extends
    Pick<ClusterFacts, 'nodeName' | 'podCidrs' | 'serviceCidrs' | 'nodePortCidrs'>,
    Partial<Pick<ClusterFacts, 'nodePortCidrsOfAnyNode' | 'nodePodCidrs'>> {
  /** By default those of the host's interfaces, without what modes put on them. */
  readonly nodeAddresses?: (family: IpFamily) => readonly string[]
}

/** What the rules of a family go by now. */
export const kernelSettings = (
  mode: ProxierKind['name'],
  options: KernelOptions,
  facts: KernelFacts,
  family: IpFamily,
): KernelSettings => {
  const { podCidrs, nodePortCidrs, nodeAddresses = ofInterfaces } = facts
  const { masqueradeAll, masqueradeBit } =
    mode === 'nftables' ? options.nftables : options
  return {
    flowtableDevices: options.nftables.flowtableDevices,
    masqueradeAll,
    masqueradeBit,
    localhostNodePorts: options.localhostNodePorts,
    localDetector: localDetector(options.localPods, podCidrs(), family),
    nodePortCidrs: nodePortCidrs(family),
    nodeAddresses: nodeAddresses(family),
    nodeName: facts.nodeName,
    serviceCidrs: cidrsOfFamily(facts.serviceCidrs(), family),
  }
}

const relaySettings = (
  { nodePodCidrs = () => [] }: KernelFacts,
  family: IpFamily,
): RelaySettings => ({
  serves: 'beside endpoints',
  nodePods: cidrsOfFamily(nodePodCidrs(), family),
})

const localDetector = (
  localPods: KernelOptions['localPods'],
  podCidrs: readonly string[],
  family: IpFamily,
): LocalDetector => {
  if (localPods.by !== 'cidrs') return localPods
  const cidrs = cidrsOfFamily(podCidrs, family)
  return cidrs.length === 0 ? { by: 'none' } : { by: 'source', cidrs }
}

const ofInterfaces = (family: IpFamily): readonly string[] =>
  allNodeAddresses(family).filter(address => !isLoopback(address))

/** What a kind of proxier is made with. */
interface KindDeps {
  readonly run: RunTool
  readonly observer: ProxierObserver
  readonly setSysctl: (name: string, value: string) => Promise<void>
}

type MakeKind = (deps: KindDeps) => ProxierKind

/** The kinds of proxier there are, as this host has them. */
export const kernelKinds = (
  clock: Clock,
  { ipvs }: KernelOptions,
): Readonly<Record<ProxierKind['name'], MakeKind>> => ({
  nftables: ({ run, observer }) => {
    const monitor = servicesMonitor({ clock })
    const onBlind = (reason: string): void =>
      observer.failed(`watching table ${tableName}`, reason)
    const kind = nftablesKind({ run, clock, observer, monitor })
    return guardedNftables(kind, { run, clock, monitor, onBlind })
  },
  ipvs: ({ run, observer, setSysctl }) =>
    ipvsKind({
      run,
      clock,
      observer,
      options: ipvs,
      read: readIfThere,
      setSysctl,
    }),
  iptables: ({ run, observer }) =>
    iptablesKind({ run, clock, observer, spawnMonitor, counters: hostCounters() }),
})

/** Whether the kernel modes work here, for `usher check`. */
export const probeKernelModes = async (
  clock: Clock,
  options: KernelOptions,
): Promise<readonly (Probe & { readonly name: string })[]> => {
  const kinds = kernelKinds(clock, options)
  const found: (Probe & { readonly name: string })[] = []
  for (const name of kernelModeNames) {
    const kind = kinds[name]({
      run: runTool,
      observer: { restoreFailed: () => {}, failed: () => {} },
      setSysctl: (sysctl, value) => hostSysctls().set(sysctl, value),
    })
    const probes = await probeFamilies(family => kind.probe(family))
    found.push({ name, ...joinProbes(probes) })
  }
  return found
}
