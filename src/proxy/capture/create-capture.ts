import type { Capture } from '../../capture/capture.ts'
import { ExclusiveCapture } from '../../capture/exclusive.ts'
import {
  type CaptureName,
  type CaptureStep,
  FallbackCapture,
} from '../../capture/fallback-capture.ts'
import { hostLock } from '../../kernel/keeper/host-lock.ts'
import { boundProxyAddress, listenCapture } from '../../capture/listen.ts'
import { localCapture } from '../../capture/local/local-capture.ts'
import { repairLog } from '../../observe/rule-log.ts'
import type { RuleTables } from '../../capture/rule-table.ts'
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

/**
 * Finds out what works here, unless it is asked for one by name, and makes that. `before`: the
 * mode that is given up for it; '' for none.
 */
export const createCapture = (
  deps: CaptureDeps,
  before: string,
): Promise<FallbackCapture> => {
  const { log, options } = deps
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
          'another capture is used: the one before no longer works',
        ),
      failed: err => log.warn({ err }, 'the capture before could not be ended in order'),
    },
  )
}

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
          'this capture does not work here now',
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
      const kinds = hostKinds(inUseByCaptures, system.tools.run)
      return [
        ...inForce(object, await withOtherTables(deps, name, 'remove', before)),
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

interface Kind {
  readonly probe: () => Promise<FamilyProbes>
  readonly make: (probes: FamilyProbes) => Capture
  readonly changesNothing?: boolean
}

const kindsOf = (deps: CaptureDeps): Readonly<Record<CaptureName, Kind>> => {
  const { options, system } = deps
  const rules = (tables: RuleTables): Kind => ({
    probe: () => probeFamilies(family => probeRules(system, tables, family)),
    make: probes => rulesCapture(deps, tables, probes),
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
    elsewhere: facts.elsewhere,
    keepRules: options.keepRules ?? false,
    repaired: repairLog(log, 'addresses'),
    clock: deps.clock,
    resync: deps.resync,
  })
}
