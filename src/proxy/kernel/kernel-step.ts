import { hostLock } from '../../kernel/keeper/host-lock.ts'
import { interfaceAddresses } from '../../capture/local-addresses.ts'
import { hostKinds } from '../../kernel/cleanup/host-kinds.ts'
import type { InUse } from '../../kernel/cleanup/in-use.ts'
import { bridgeWarning } from '../../kernel/bridges.ts'
import { conntrackCleaner } from '../../kernel/conntrack.ts'
import { tableName } from '../../kernel/nft/tables.ts'
import { udpVipsLeft } from '../../kernel/vips-left.ts'
import type { ProxierKind, ProxierObserver } from '../../kernel/proxier.ts'
import { StoppableTools } from '../../kernel/run-tool.ts'
import { hostSysctls, type Sysctls } from '../../kernel/sysctls.ts'
import { probeFamilies, whyUnusable } from '../../kernel/probe.ts'
import type { ModeStep } from '../../mode/fallback-mode.ts'
import { KernelMode } from '../../mode/kernel-mode.ts'
import { kernelLog } from '../../observe/rule-log.ts'
import type { RuleMetrics } from '../../observe/rule-metrics.ts'
import { ipFamilies } from '../../util/ip.ts'
import type { Shared } from '../options.ts'
import { removeLeftovers } from '../remove-leftovers.ts'
import type { KernelOptions } from '../../mode/kernel-options.ts'
import { type KernelFacts, kernelSettings } from './kernel-settings.ts'
import type { KindDeps } from './kernel-kinds.ts'
import { KernelSetup } from './kernel-setup.ts'
import { onlineProcessors, wantedSysctls } from './wanted-sysctls.ts'

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
  const { clock, log, options, facts, metrics } = deps
  const said = kernelLog(log, name)
  const cores = onlineProcessors()
  const setup = new KernelSetup({
    sysctls: deps.sysctls ?? hostSysctls(),
    wanted: () =>
      wantedSysctls(options, {
        mode: name,
        cores,
        nodePortCidrs: facts.nodePortCidrsOfAnyNode,
      }),
    failed: (sysctl, value, why) =>
      log.warn({ sysctl, value, why }, 'a setting of the kernel stays as it is'),
  })
  const observer: ProxierObserver = {
    restoreFailed: (family, work) => {
      metrics.restoreFailed(family, work)
      said.restoreFailed(family, work)
    },
    failed: (what, why) => said.failed(what, why),
  }
  const setSysctl = (sysctl: string, value: string) => setup.set(sysctl, value)
  const tools = new StoppableTools()
  const kind = makeKind({ run: tools.run, observer, setSysctl })
  const conntrack = conntrackCleaner({
    clock,
    // Flows go to endpoints: there is no one address by which they are all known.
    proxyAddress: () => undefined,
    ownAddresses: interfaceAddresses,
    nodePortCidrs: facts.nodePortCidrs,
    failed: why => said.failed('ending stale UDP flows', why),
  })
  const lock = () =>
    hostLock({
      clock,
      self: `usher ${deps.version}, pid ${process.pid}`,
      waiting: holder =>
        log.warn({ holder }, 'an Usher that leads traffic is here; waiting for its end'),
    })
  const inUse = (): Partial<InUse> => {
    const captures = deps.hasRelay?.() ?? false
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
        () => log.warn({ mode: name }, 'finding out whether this mode works takes long'),
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
        unusable: whyUnusable(probes),
        probe: family => kind.probe(family),
        lock: lock(),
        tools,
        settings: family => kernelSettings(name, options, facts, family),
        prepare: () => setup.prepare(),
        guard: stands => setup.guard(stands),
        refused: () => setup.refused(),
        removeOthers: () =>
          removeLeftovers(log, {
            object: `mode ${name}`,
            kinds: hostKinds(inUse(), tools.run),
            before,
          }),
        conntrack,
        left: family => udpVipsLeft(tools.run, family),
        resync: deps.resync,
        observers: [metrics, said],
      })
    },
  }
}
