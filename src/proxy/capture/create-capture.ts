import type { Capture } from '../../capture/capture.ts'
import {
  type CaptureName,
  type CaptureChoice,
  chooseCapture,
} from '../../capture/choose-capture.ts'
import { ExclusiveCapture } from '../../capture/exclusive.ts'
import { hostLock } from '../../kernel/keeper/host-lock.ts'
import { boundProxyAddress, listenCapture } from '../../capture/listen.ts'
import { localCapture } from '../../capture/local/local-capture.ts'
import { addressLog } from '../../observe/rule-log.ts'
import type { RuleTables } from '../../capture/rule-table.ts'
import { permissionAdvice } from '../../kernel/permission-advice.ts'
import { type FamilyProbes, joinProbes, type Probe } from '../../kernel/probe.ts'
import { isProbeTable, tableName } from '../../kernel/nft/tables.ts'
import { hostKinds } from '../../kernel/cleanup/host-kinds.ts'
import type { InUse } from '../../kernel/cleanup/in-use.ts'
import { isCaptureChain } from '../../kernel/xtables/kube-chains.ts'
import { removeLeftovers } from '../remove-leftovers.ts'
import {
  type CaptureDeps,
  probeAddresses,
  probeRules,
  withOtherTables,
} from './host-system.ts'
import { rulesCapture } from './rules.ts'

export interface CaptureParts {
  readonly capture: Capture
  readonly choice: CaptureChoice
}

/** Finds out what works here, unless it is asked for one by name, and makes that. */
export const createCapture = async (deps: CaptureDeps): Promise<CaptureParts> => {
  const { capture: wanted } = deps.options
  if (wanted === 'auto') return firstThatWorks(deps)
  if (wanted === 'vips-only')
    return { capture: listening(deps, wanted), choice: asked('listen') }
  if (wanted === 'listen' || wanted === 'none')
    return { capture: listening(deps, wanted), choice: asked(wanted) }
  return asAsked(deps, wanted)
}

const asked = (name: CaptureName, detail = ''): CaptureChoice => ({
  name,
  detail,
  passedOver: [],
})

const firstThatWorks = async (deps: CaptureDeps): Promise<CaptureParts> => {
  const kinds = kindsOf(deps)
  const found = new Map<CaptureName, FamilyProbes>()
  const probeOf = (name: KindName) => async (): Promise<Probe> => {
    const probes = await kinds[name].probe()
    found.set(name, probes)
    return joinProbes(probes)
  }
  const choice = await chooseCapture(
    bestFirst.map(name => ({ name, probe: probeOf(name) })),
  )
  const taken = bestFirst.find(name => name === choice.name)
  const probes = found.get(choice.name)
  return {
    capture:
      taken && probes
        ? alone(deps, taken, kinds[taken].make(probes))
        : listening(deps, 'listen'),
    choice,
  }
}

/** Also where it does not work now: a lock may be held, or a tool come later. */
const asAsked = async (deps: CaptureDeps, name: KindName): Promise<CaptureParts> => {
  const { probe, make } = kindsOf(deps)[name]
  const probes = await probe()
  const { usable, detail } = joinProbes(probes)
  if (!usable)
    deps.log.error(
      { capture: name, why: detail, advice: adviceOn(detail) },
      'this capture does not work here now',
    )
  return {
    capture: alone(deps, name, make(probes)),
    choice: asked(name, usable ? detail : `does not work here now: ${detail}`),
  }
}

const adviceOn = (detail: string): string =>
  [permissionAdvice(detail), '--capture auto takes what works']
    .filter(Boolean)
    .join('; or ')

/** Whatever changes the host is one process's business at a time. */
const alone = (deps: CaptureDeps, name: KindName, capture: Capture): Capture => {
  const { options, system, clock, log, isBesideKernelMode } = deps
  if (isBesideKernelMode) return besideKernelMode(deps, capture)
  const lock = hostLock({
    clock,
    self: `usher ${options.version}, pid ${process.pid}`,
    waiting: holder =>
      log.warn({ holder }, 'an Usher that captures traffic is here; waiting for its end'),
  })
  return new ExclusiveCapture(capture, {
    clock,
    lock,
    tools: system.tools,
    keeps: options.keepRules ?? false,
    removeOthers: async () => {
      await withOtherTables(deps, name, table => table.remove())
      await removeLeftovers(log, hostKinds(inUseByCaptures, system.tools.run))
    },
  })
}

/** It is this process's turn by then, and others' things have gone. */
const besideKernelMode = ({ clock, system }: CaptureDeps, capture: Capture): Capture =>
  new ExclusiveCapture(capture, {
    clock,
    lock: { acquire: async () => true, release: async () => {} },
    tools: system.tools,
    keeps: false,
    removeOthers: async () => {},
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
    probe: () => probeRules(system, tables),
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
    elsewhere: facts.elsewhere,
    keepRules: options.keepRules ?? false,
    repaired: addressLog(log),
  })
}
