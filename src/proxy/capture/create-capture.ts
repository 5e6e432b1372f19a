import type { Capture } from '../../capture/capture.ts'
import { ExclusiveCapture } from '../../capture/exclusive.ts'
import {
  type CaptureChoice,
  type CaptureName,
  type CaptureStep,
  FallbackCapture,
} from '../../capture/fallback-capture.ts'
import { hostLock } from '../../kernel/keeper/host-lock.ts'
import { boundProxyAddress, listenCapture } from '../../capture/listen.ts'
import { localCapture } from '../../capture/local/local-capture.ts'
import { addressLog } from '../../observe/rule-log.ts'
import type { RuleTable, RuleTables } from '../../capture/rule-table.ts'
import { permissionAdvice } from '../../kernel/permission-advice.ts'
import {
  anywhere,
  type FamilyProbes,
  joinProbes,
  probeFamilies,
} from '../../kernel/probe.ts'
import { isProbeTable, tableName } from '../../kernel/nft/tables.ts'
import { hostKinds } from '../../kernel/cleanup/host-kinds.ts'
import type { InUse } from '../../kernel/cleanup/in-use.ts'
import { isCaptureChain } from '../../kernel/xtables/kube-chains.ts'
import { inForce, removeLeftovers } from '../remove-leftovers.ts'
import {
  type CaptureDeps,
  probeAddresses,
  probeRules,
  withOtherTables,
} from './host-system.ts'
import { rulesCapture } from './rules.ts'

export interface CaptureParts {
  readonly capture: Capture
  readonly choice: () => CaptureChoice
}

/**
 * Finds out what works here, unless it is asked for one by name, and makes that. `before`: the
 * mode that is given up for it; '' for none.
 */
export const createCapture = async (
  deps: CaptureDeps,
  before: string,
): Promise<CaptureParts> => {
  const { capture: wanted } = deps.options
  if (wanted === 'auto') return firstThatWorks(deps, before)
  const capture = (name: 'listen' | 'none'): CaptureParts => ({
    capture: lastResort(deps, wanted === 'vips-only' ? wanted : name, before),
    choice: asked(name),
  })
  if (wanted === 'vips-only' || wanted === 'listen') return capture('listen')
  return wanted === 'none' ? capture('none') : asAsked(deps, wanted, before)
}

const asked =
  (name: CaptureName, detail = '') =>
  (): CaptureChoice => ({ name, detail, passedOver: [] })

/** What was given up may have left something, whatever comes after it. */
const lastResort = (
  deps: CaptureDeps,
  mode: 'listen' | 'vips-only' | 'none',
  before: string,
): Capture =>
  before === '' ? listening(deps, mode) : alone(deps, mode, listening(deps, mode), before)

const firstThatWorks = async (
  deps: CaptureDeps,
  before: string,
): Promise<CaptureParts> => {
  const { log } = deps
  const kinds = kindsOf(deps)
  const steps = bestFirst.map((name): CaptureStep => ({
    name,
    probe: () => kinds[name].probe(),
    start: async (probes, given = before) =>
      alone(deps, name, kinds[name].make(probes), given),
  }))
  const listen: CaptureStep = {
    name: 'listen',
    probe: async () => anywhere,
    start: async (_, given = before) => lastResort(deps, 'listen', given),
  }
  const capture = await FallbackCapture.start([...steps, listen], {
    fellBack: change =>
      log.error({ ...change }, 'another capture is used: the one before no longer works'),
    failed: err => log.warn({ err }, 'the capture before could not be ended in order'),
  })
  return { capture, choice: () => capture.choice }
}

/** Also where it does not work now: a lock may be held, or a tool come later. */
const asAsked = async (
  deps: CaptureDeps,
  name: KindName,
  before: string,
): Promise<CaptureParts> => {
  const { probe, make } = kindsOf(deps)[name]
  const probes = await probe()
  const { usable, detail } = joinProbes(probes)
  if (!usable)
    deps.log.error(
      { capture: name, why: detail, advice: adviceOn(detail) },
      'this capture does not work here now',
    )
  return {
    capture: alone(deps, name, make(probes), before),
    choice: asked(name, usable ? detail : `does not work here now: ${detail}`),
  }
}

const adviceOn = (detail: string): string =>
  [permissionAdvice(detail), '--capture auto takes what works']
    .filter(Boolean)
    .join('; or ')

/** Whatever changes the host is one process's business at a time. */
const alone = (
  deps: CaptureDeps,
  name: string,
  capture: Capture,
  before: string,
): Capture => {
  const { options, system, clock, log, resync, isBesideKernelMode } = deps
  if (isBesideKernelMode) return besideKernelMode(deps, capture)
  const lock = hostLock({
    clock,
    self: `usher ${options.version}, pid ${process.pid}`,
    waiting: holder =>
      log.warn({ holder }, 'an Usher that captures traffic is here; waiting for its end'),
  })
  return new ExclusiveCapture(capture, {
    clock,
    resync,
    lock,
    tools: system.tools,
    keeps: options.keepRules ?? false,
    removeOthers: async () => {
      const object = `capture ${name}`
      const remove = (table: RuleTable) => table.remove()
      const kinds = hostKinds(inUseByCaptures, system.tools.run)
      return [
        ...inForce(object, await withOtherTables(deps, name, remove, before)),
        ...(await removeLeftovers(log, { object, kinds, before })),
      ]
    },
  })
}

/** It is this process's turn by then, and others' things have gone. */
const besideKernelMode = (
  { clock, resync, system }: CaptureDeps,
  capture: Capture,
): Capture =>
  new ExclusiveCapture(capture, {
    clock,
    resync,
    lock: { acquire: async () => true, release: async () => {} },
    tools: system.tools,
    keeps: false,
    removeOthers: async () => [],
  })

/** All that is left then is of the kernel modes, Usher's or kube-proxy's. */
const inUseByCaptures: Partial<InUse> = {
  chain: (_table, chain) => isCaptureChain(chain),
  nftablesTable: name => name === tableName || isProbeTable(name),
  captures: true,
}

type KindName = 'nftables' | 'iptables' | 'local'

const bestFirst: readonly KindName[] = ['nftables', 'iptables', 'local']

/** A capture that may not work everywhere. */
interface Kind {
  readonly probe: () => Promise<FamilyProbes>
  readonly make: (probes: FamilyProbes) => Capture
}

const kindsOf = (deps: CaptureDeps): Readonly<Record<KindName, Kind>> => {
  const { system } = deps
  const rules = (tables: RuleTables): Kind => ({
    probe: () => probeFamilies(family => probeRules(system, tables, family)),
    make: probes => rulesCapture(deps, tables, probes),
  })
  return {
    nftables: rules(system.nftables),
    iptables: rules(system.iptables),
    local: { probe: () => probeAddresses(system), make: () => local(deps) },
  }
}

const listening = (deps: CaptureDeps, mode: 'listen' | 'vips-only' | 'none'): Capture => {
  const { options, localAddresses, proxyPorts, facts } = deps
  return listenCapture({
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
  return localCapture({
    hostAddresses: system.addresses,
    localAddresses,
    nodePortCidrs: facts.nodePortCidrs,
    serviceCidrs: facts.serviceCidrs,
    keepRules: options.keepRules ?? false,
    repaired: addressLog(log),
    clock: deps.clock,
    resync: deps.resync,
  })
}
