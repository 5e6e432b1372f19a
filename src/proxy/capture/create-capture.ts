import type { Problem } from '../../model/snapshot.ts'
import {
  type Capture,
  ExclusiveCapture,
  type CaptureName,
  type CaptureStep,
  FallbackCapture,
} from '../../capture/capture.ts'
import { type HostLock, SocketLock } from '../../kernel/keeper/host-lock.ts'
import { boundProxyAddress, ListenCapture } from '../../capture/listen.ts'
import { LocalCapture } from '../../capture/local/local-capture.ts'
import { captureLog, repairLog } from '../../observe/rule-log.ts'
import type { SteeringKind } from '../../capture/steering.ts'
import { permissionAdvice } from '../../kernel/permission-advice.ts'
import {
  anywhere,
  type FamilyProbes,
  joinProbes,
  probeFamilies,
  unusableReasons,
  type Probe,
} from '../../kernel/probe.ts'
import { isProbeTable, servicesTableName, tableName } from '../../kernel/nft/tables.ts'
import { hostKinds } from '../../kernel/cleanup/host-kinds.ts'
import type { KeptObjects } from '../../kernel/cleanup/kept-objects.ts'
import { isCaptureChain } from '../../kernel/xtables/kube-chains.ts'
import { inForce, removeLeftovers } from '../remove-leftovers.ts'
import { KeptAddresses } from '../../capture/kept-addresses.ts'
import { interfaceAddresses, type LocalAddresses } from '../../capture/local-addresses.ts'
import { RuleCapture } from '../../capture/rule-capture.ts'
import { ConntrackCleaner, forgetWaiting } from '../../kernel/conntrack.ts'
import { Families } from '../../kernel/keeper/families.ts'
import { udpVipsLeft } from '../../kernel/vips-left.ts'
import {
  runTool,
  isUnsupported,
  StoppableTools,
  ToolError,
} from '../../kernel/run-tool.ts'
import { proxyAddressOf, proxyCidrOf } from '../../kernel/proxy-address.ts'
import { spawnMonitor } from '../../kernel/nft/monitor.ts'
import { iptablesSteering } from '../../capture/iptables/iptables.ts'
import { nftablesSteering, removeGuards } from '../../capture/nftables.ts'
import type { ProxyPorts } from '../../capture/proxy-ports.ts'
import type { RuleMetrics } from '../../observe/rule-metrics.ts'
import type { Stay } from '../../kernel/cleanup/clean-up.ts'
import type { HostAddresses } from '../../kernel/host-addresses/host-addresses.ts'
import { LinuxHostAddresses } from '../../kernel/host-addresses/linux.ts'
import { WindowsHostAddresses } from '../../kernel/host-addresses/windows.ts'
import type { Clock } from '../../util/clock.ts'
import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import { type KernelSetup, kernelSetup } from '../kernel/kernel-setup.ts'
import type { Shared } from '../options.ts'

/**
 * Finds out what works here, unless it is asked for one by name, and makes that. `before`: the
 * mode that is given up for it; '' for none.
 */
export const createCapture = (
  given: Omit<CaptureDeps, 'setup'>,
  before: string,
): Promise<FallbackCapture> => {
  const { log, options } = given
  const deps: CaptureDeps = { ...given, setup: setupOf(given) }
  const names: readonly CaptureName[] =
    options.capture === 'auto'
      ? ['nftables', 'iptables', 'local', 'listen']
      : [options.capture === 'vips-only' ? 'listen' : options.capture]
  return FallbackCapture.start(
    names.map(name => stepOf(deps, name, before)),
    {
      fellBack: change =>
        log.error(
          { ...change },
          'switched to another capture: the previous one no longer works',
        ),
      failed: err =>
        log.warn({ err }, 'the previous capture could not be shut down cleanly'),
    },
  )
}

/** Rules go by the kernel's table of connections. Beside a kernel mode that one sets it. */
const setupOf = ({
  options: { kernel },
  facts,
  log,
  isBesideKernelMode,
}: Omit<CaptureDeps, 'setup'>): KernelSetup | undefined =>
  kernel === undefined || isBesideKernelMode
    ? undefined
    : kernelSetup('userspace', { options: kernel, facts, log })

/** One that does not work now was asked for by name: a lock may be held, or a tool come later. */
const stepOf = (deps: CaptureDeps, name: CaptureName, before: string): CaptureStep => {
  const { probe, make, changesNothing = false } = kindsOf(deps)[name]
  return {
    name,
    probe,
    start: async (probes, given = before) => {
      const { usable, detail } = joinProbes(probes)
      if (!usable)
        deps.log.error(
          { capture: name, why: detail, advice: adviceOn(detail) },
          'this capture does not work here at the moment',
        )
      const capture = make(probes)
      // What was given up may have left something, whatever comes after it.
      return changesNothing && given === '' ? capture : alone(deps, name, capture, given)
    },
  }
}

const adviceOn = (detail: string): string =>
  [permissionAdvice(detail), '--capture auto takes what works']
    .filter(Boolean)
    .join('; or ')

/**
 * Whatever changes the host is one process's business at a time. Beside a kernel mode that one sees to it, and
 * takes out others' things.
 */
const alone = (
  deps: CaptureDeps,
  name: string,
  capture: Capture,
  before: string,
): Capture => {
  const { options, system, clock, log, resync, isBesideKernelMode } = deps
  const lock = new SocketLock({
    clock,
    self: `usher ${options.version}, pid ${process.pid}`,
    waiting: holder =>
      log.warn(
        { holder },
        'another Usher captures traffic on this node; waiting for it to end',
      ),
  })
  const removeOthers = async (): Promise<readonly Problem[]> => {
    const object = `capture ${name}`
    const kinds = hostKinds(keptForCaptures(deps.setup, name), system.tools.run)
    return [
      ...inForce(object, await withOtherTables(deps, name, 'remove', before)),
      ...(await removeLeftovers(log, { object, kinds, before })),
    ]
  }
  return new ExclusiveCapture(capture, {
    clock,
    resync,
    lock: isBesideKernelMode ? noLock : lock,
    tools: system.tools,
    keeps: options.keepRules ?? false,
    removeOthers: isBesideKernelMode ? async () => [] : removeOthers,
  })
}

const noLock: HostLock = { acquire: async () => true, release: async () => {} }

/** All that is left then is of the kernel modes, Usher's or kube-proxy's. */
const keptForCaptures = (
  setup: CaptureDeps['setup'],
  capture: string,
): Partial<KeptObjects> => ({
  chain: (_table, chain) => isCaptureChain(chain),
  nftablesTable: name =>
    name === tableName ||
    (name === servicesTableName && capture === 'nftables') ||
    isProbeTable(name),
  captures: true,
  sysctl: name => setup?.has(name) ?? false,
})

interface Kind {
  readonly probe: () => Promise<FamilyProbes>
  readonly make: (probes: FamilyProbes) => Capture
  readonly changesNothing?: boolean
}

const kindsOf = (deps: CaptureDeps): Readonly<Record<CaptureName, Kind>> => {
  const { options, system } = deps
  const rules = (kind: SteeringKind): Kind => ({
    probe: () => probeFamilies(family => probeRules(system, kind, family)),
    make: probes => rulesCapture(deps, kind, probes),
  })
  const sockets = (mode: Parameters<typeof listening>[1]): Kind => ({
    probe: async () => anywhere,
    make: () => listening(deps, mode),
    changesNothing: true,
  })
  return {
    nftables: rules(system.nftables),
    iptables: rules(system.iptables),
    local: { probe: () => probeAddresses(system), make: () => local(deps) },
    listen: sockets(options.capture === 'vips-only' ? 'vips-only' : 'listen'),
    none: sockets('none'),
  }
}

const listening = (deps: CaptureDeps, mode: 'listen' | 'vips-only' | 'none'): Capture => {
  const { options, localAddresses, proxyPorts, facts } = deps
  return new ListenCapture({
    mode,
    proxyAddress: boundProxyAddress(options.bindAddress),
    proxyPortRange: options.proxyPortRange,
    localAddresses,
    proxyPorts,
    nodePortCidrs: facts.nodePortCidrs,
    ...(options.captureAdvice !== undefined && { advice: options.captureAdvice }),
  })
}

const local = (deps: CaptureDeps): Capture => {
  const { options, log, system, facts, localAddresses } = deps
  return new LocalCapture({
    hostAddresses: system.addresses,
    localAddresses,
    nodePortCidrs: facts.nodePortCidrs,
    serviceCidrs: facts.serviceCidrs,
    elsewhere: facts.elsewhere,
    keepRules: options.keepRules ?? false,
    repaired: repairLog(log, 'addresses'),
    clock: deps.clock,
    resync: deps.resync,
  })
}

/** A capture by rules of the kernel's, in the families that can have them. */
const rulesCapture = (
  deps: CaptureDeps,
  kind: SteeringKind,
  probes: FamilyProbes,
): Capture => {
  const { options, clock, log, system, facts } = deps
  const { nodePortCidrs } = facts
  const families = new Families({
    clock,
    resync: deps.resync,
    object: `capture ${kind.name}`,
    unusable: unusableReasons(probes),
    probe: family => probeRules(system, kind, family),
  })
  const listen = new ListenCapture({
    mode: 'none',
    proxyKind: kind.name,
    proxyAddress: family => {
      const reason = families.problemOf(family)
      return reason === '' ? { address: proxyAddressOf[family] } : { reason }
    },
    proxyPortRange: options.proxyPortRange,
    localAddresses: deps.localAddresses,
    proxyPorts: deps.proxyPorts,
    nodePortCidrs,
  })
  const conntrack = new ConntrackCleaner({
    clock,
    proxyAddress: family => proxyAddressOf[family],
    ownAddresses: interfaceAddresses,
    nodePortCidrs,
    failed: why =>
      why === ''
        ? log.info({}, 'stale UDP flows can be removed again')
        : log.warn(
            { why },
            'stale UDP flows keep their old endpoints: they cannot be removed',
          ),
  })
  const kept = new KeptAddresses({
    addresses: system.addresses,
    repaired: repairLog(log, 'addresses'),
    resync: deps.resync,
  })
  const captureEvents = captureLog(log, kind.name)
  return new RuleCapture({
    clock,
    name: kind.name,
    rules: new Map(
      deps.isBesideKernelMode
        ? []
        : ipFamilies.map(family => [family, kind.rules(family)]),
    ),
    families,
    listen,
    prepare: (family, usable) =>
      kept.take(
        proxyCidrOf[family],
        usable.map(one => proxyCidrOf[one]),
      ),
    applied: async () => deps.setup?.prepare(),
    holdOthers: async () => {
      const left = await withOtherTables(deps, kind.name, 'hold', '')
      for (const one of left) log.warn({ ...one }, 'old rules may still be in force')
    },
    // What stays is tried again, and a problem, once these rules lead.
    removeOthers: async family =>
      void (await withOtherTables(deps, kind.name, 'remove', '', [family])),
    release: async keep => {
      if (!keep) await deps.setup?.undo()
      // Where rules could not be changed they may lead there yet: without the address out of the node.
      let stays = keep
      try {
        if (deps.isBesideKernelMode) await removeGuards(system.tools.run)
      } catch (error) {
        stays = true
        throw error
      } finally {
        await kept.release(stays)
      }
    },
    nodePortCidrs,
    podCidrs: facts.nodePodCidrs,
    forgetWaiting: family => forgetWaiting(runTool, family),
    conntrack,
    left: family => udpVipsLeft(runTool, family),
    keepRules: options.keepRules ?? false,
    hasSockets: deps.hasSockets,
    resync: deps.resync,
    observers: [deps.metrics, captureEvents],
    failed: (what, why) => captureEvents.failed(what, why),
  })
}

/** What of the system captures are made with. */
interface HostSystem {
  /** By which all of it is done. */
  readonly tools: StoppableTools
  readonly addresses: HostAddresses
  readonly nftables: SteeringKind
  readonly iptables: SteeringKind
}

/** What captures are made with. */
interface CaptureDeps extends Pick<
  Shared,
  'options' | 'clock' | 'log' | 'facts' | 'resync'
> {
  readonly metrics: RuleMetrics
  readonly system: HostSystem
  readonly localAddresses: LocalAddresses
  readonly proxyPorts: ProxyPorts
  /** As of `RuleCaptureDeps`. */
  readonly hasSockets: () => boolean
  /** A kernel mode of this process leads traffic to the proxy ports: the host is its, and what it has stays. */
  readonly isBesideKernelMode: boolean
  /** Settings of the kernel's that rules go with. */
  readonly setup: KernelSetup | undefined
}

interface HostSystemDeps {
  readonly clock: Clock
  /** For now damage to the rules would not be noticed, because of `reason`. */
  readonly onBlind?: (reason: string) => void
  /** As `process.platform`. */
  readonly platform?: string
}

export const hostSystem = ({ clock, onBlind, platform }: HostSystemDeps): HostSystem => {
  const tools = new StoppableTools()
  const deps = { run: tools.run, clock, spawnMonitor }
  const isWindows = (platform ?? process.platform) === 'win32'
  return {
    tools,
    addresses: isWindows ? new WindowsHostAddresses(deps) : new LinuxHostAddresses(deps),
    nftables: nftablesSteering({ ...deps, ...(onBlind && { onBlind }) }),
    iptables: iptablesSteering(deps),
  }
}

/** Whether rules work, and an address of Usher's own for them to lead to. */
const probeRules = async (
  { addresses }: HostSystem,
  kind: SteeringKind,
  family: IpFamily,
): Promise<Probe> => {
  const rules = await kind.probe(family)
  if (!rules.usable) return rules
  const own = await addresses.probe(family)
  return own.usable ? rules : own
}

const probeAddresses = ({ addresses }: HostSystem): Promise<FamilyProbes> =>
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
const withOtherTables = async (
  { system }: CaptureDeps,
  own: string,
  work: 'hold' | 'remove',
  before: string,
  families: readonly IpFamily[] = ipFamilies,
): Promise<readonly Stay[]> => {
  const others = [system.nftables, system.iptables].filter(({ name }) => name !== own)
  const one = async (kind: SteeringKind, family: IpFamily): Promise<readonly Stay[]> => {
    try {
      await kind.rules(family)[work]()
      return []
    } catch (error) {
      const isMissing = error instanceof ToolError && error.failure === 'missing'
      if ((isMissing && kind.name !== before) || isUnsupported(error)) return []
      const what = `rules of capture ${kind.name}, ${family}`
      return [{ what, reason: (error as Error).message }]
    }
  }
  // Clients wait meanwhile.
  const left = others.flatMap(kind => families.map(each => one(kind, each)))
  return (await Promise.all(left)).flat()
}
