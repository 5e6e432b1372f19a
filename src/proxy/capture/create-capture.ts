import { boundProxyAddress } from '../../capture/bound-proxy-address.ts'
import type { Capture } from '../../capture/capture.ts'
import {
  type CaptureName,
  type Choice,
  chooseCapture,
  joinProbes,
} from '../../capture/choose-capture.ts'
import { listenCapture } from '../../capture/listen.ts'
import type { LocalAddresses } from '../../capture/local-addresses.ts'
import { localCapture } from '../../capture/local/local.ts'
import type { ProxyPorts } from '../../capture/proxy-ports.ts'
import type { Log } from '../../observe/log.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { CaptureFacts, CaptureOptions } from './capture-options.ts'
import {
  type FamilyProbes,
  type HostSystem,
  probeAddresses,
  probeRules,
} from './host-system.ts'
import { rulesCapture } from './rules.ts'

export interface CaptureDeps {
  readonly options: CaptureOptions
  readonly clock: Clock
  readonly log: Log
  readonly system: HostSystem
  readonly facts: CaptureFacts
  readonly localAddresses: LocalAddresses
  readonly proxyPorts: ProxyPorts
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
}

export interface CaptureParts {
  readonly capture: Capture
  readonly choice: Choice
}

/** Finds out what works here, unless it is told what to take, and makes that. */
export const createCapture = async (deps: CaptureDeps): Promise<CaptureParts> => {
  const wanted = deps.options.capture
  if (wanted === 'vips-only') {
    return { capture: listening(deps, 'local'), choice: told('local') }
  }
  const kinds = kindsOf(deps)
  if (wanted !== 'auto') {
    const kind = kinds.find(({ name }) => name === wanted)
    if (kind === undefined)
      return { capture: listening(deps, wanted), choice: told(wanted) }
    const probes = await kind.probe()
    const { usable, detail } = joinProbes(probes.IPv4, probes.IPv6)
    if (!usable)
      deps.log.error(
        { capture: wanted, why: detail },
        'the capture does not work here now',
      )
    return { capture: kind.make(probes), choice: { ...told(wanted), detail } }
  }
  const found = new Map<CaptureName, FamilyProbes>()
  const choice = await chooseCapture(
    kinds.map(({ name, probe }) => ({
      name,
      probe: async () => {
        const probes = await probe()
        found.set(name, probes)
        return joinProbes(probes.IPv4, probes.IPv6)
      },
    })),
  )
  const kind = kinds.find(({ name }) => name === choice.name)
  const probes = found.get(choice.name)
  const capture = kind && probes ? kind.make(probes) : listening(deps, 'listen')
  return { capture, choice }
}

const told = (name: CaptureName): Choice => ({ name, detail: '', passedOver: [] })

/** A capture that may not work everywhere. */
interface Kind {
  readonly name: CaptureName
  readonly probe: () => Promise<FamilyProbes>
  readonly make: (probes: FamilyProbes) => Capture
}

/** The best first. */
const kindsOf = (deps: CaptureDeps): readonly Kind[] => {
  const { system } = deps
  return [
    ...[system.nftables, system.iptables].map(tables => ({
      name: tables.name,
      probe: () => probeRules(system, tables),
      make: (probes: FamilyProbes) => rulesCapture(deps, tables, probes),
    })),
    { name: 'local', probe: () => probeAddresses(system), make: () => local(deps) },
  ]
}

const listening = (deps: CaptureDeps, mode: 'listen' | 'local' | 'none'): Capture => {
  const { options, localAddresses, proxyPorts, nodePortCidrs } = deps
  return listenCapture({
    mode,
    proxyAddress: boundProxyAddress(options.bindAddress),
    proxyPortRange: options.proxyPortRange,
    localAddresses,
    proxyPorts,
    nodePortCidrs,
    ...(options.captureAdvice !== undefined && { advice: options.captureAdvice }),
  })
}

const local = (deps: CaptureDeps): Capture => {
  const { options, clock, system, facts, localAddresses, proxyPorts, nodePortCidrs } =
    deps
  return localCapture({
    clock,
    addresses: system.addresses,
    localAddresses,
    proxyPorts,
    nodePortCidrs,
    serviceCidrs: () => [...(options.serviceCidr ?? []), ...facts.serviceCidrs()],
    keepRules: options.keepRules ?? false,
  })
}
