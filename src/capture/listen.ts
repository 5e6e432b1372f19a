import { isDeepStrictEqual } from 'node:util'
import type { ServicePort, Vip } from '../model/snapshot.ts'
import { familyOf, type IpFamily, isWildcard, wildcardOf } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { forEachYielding } from '../util/yielding.ts'
import type { Capture, Placement, VipPlacement } from './capture.ts'
import {
  bindAddresses,
  interfaceAddresses,
  type LocalAddresses,
} from './local-addresses.ts'
import type { PortRange, ProxyPorts } from './proxy-ports.ts'
import { possibleGroups, type VipGroup, vipGroupNames, vipGroups } from './vip-group.ts'

export interface ListenCaptureDeps {
  /** `local`: VIPs of this host. `none`: proxy ports. `auto`: the first where it can. */
  readonly mode: 'auto' | 'local' | 'none'
  readonly bindAddress: string
  readonly proxyPortRange: PortRange | undefined
  readonly localAddresses: LocalAddresses
  readonly proxyPorts: ProxyPorts
  /** The host's own addresses in one family; by default those of its interfaces. */
  readonly ofInterfaces?: (family: IpFamily) => string[]
  /** What to do about a VIP that `local` can't serve; '' where there is nothing. */
  readonly advice?: string
}

/** How many addresses are probed at the same time; each needs a descriptor. */
const probesAtOnce = 32

/**
 * The two captures that need no rules of the kernel's: clients dial an address on which
 * the relay itself listens, the VIP or a proxy port.
 */
export const listenCapture = (deps: ListenCaptureDeps): Capture => new ListenCapture(deps)

class ListenCapture implements Capture {
  readonly #deps: ListenCaptureDeps
  readonly #placements = new KeyedList<ServicePort, Placement>(listenerId)
  /** Of the answers of LocalAddresses that the placements rest on. */
  #era = 0
  /** Whether some VIP got no proxy port, as far as is known. */
  #short = false

  constructor(deps: ListenCaptureDeps) {
    this.#deps = deps
  }

  /** What the host has for addresses is looked at anew for all when it may be old. */
  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    const {
      mode,
      localAddresses,
      proxyPorts,
      ofInterfaces = interfaceAddresses,
    } = this.#deps
    const { era } = localAddresses
    const all = era !== this.#era
    const suspects = all ? servicePorts : this.#placements.changed(servicePorts)
    const local =
      mode === 'none' ? new Set<string>() : await localOnes(localAddresses, suspects)
    const host: Host = { local, ofInterfaces: oncePerFamily(ofInterfaces) }
    const make = async (servicePort: ServicePort, before: Placement | undefined) => {
      const placement = await placeOne(this.#deps, host, servicePort)
      if (mode !== 'local' && placement.vips.some(isNotCaptured)) this.#short = true
      return before && samePlacement(before, placement) ? before : placement
    }
    let released = false
    const gone = (id: string): void => {
      released = true
      for (const group of vipGroupNames) proxyPorts.release(proxyPortId(id, group))
    }
    const wasShort = this.#short
    if (all) this.#short = false
    const placements = await this.#placements.update(servicePorts, make, { all, gone })
    this.#era = era
    if (all || !wasShort || !released) return placements
    // Somebody else's port may do for those who got none: all are looked at once more.
    this.#era = 0
    return this.place(servicePorts)
  }
}

/** What is known of the host during one sync. */
interface Host {
  readonly local: ReadonlySet<string>
  readonly ofInterfaces: (family: IpFamily) => string[]
}

const listenerId = ({ family, key }: ServicePort): string => `${family} ${key}`

/** The ServicePort's first proxy port, and those of VIPs whose clients get something else. */
const proxyPortId = (id: string, group: VipGroup): string =>
  group === 'internal' ? id : `${id} ${group}`

const placeOne = async (
  deps: ListenCaptureDeps,
  host: Host,
  servicePort: ServicePort,
): Promise<Placement> => {
  const id = listenerId(servicePort)
  const groups = vipGroups(servicePort)
  const vips: VipPlacement[] = []
  for (const vip of servicePort.vips) {
    if (host.local.has(vip.address)) vips.push(onVip(host, servicePort, vip))
    else if (deps.mode === 'local') vips.push({ vip, ...notLocal(deps) })
    else {
      // Once it had a proxy port of its own a VIP keeps it, lest it move with each
      // endpoint that makes a policy felt or not.
      const group = possibleGroups[vip.kind].find(
        one => one === groups[vip.kind] || deps.proxyPorts.holds(proxyPortId(id, one)),
      )
      const portId = proxyPortId(id, group ?? 'internal')
      vips.push({ vip, ...(await proxyPort(deps, host, servicePort, portId)) })
    }
  }
  return { servicePort, listenerId: id, vips }
}

const isNotCaptured = ({ capture }: VipPlacement): boolean => capture === 'not captured'

const samePlacement = (a: Placement, b: Placement): boolean =>
  a.servicePort === b.servicePort && isDeepStrictEqual(a.vips, b.vips)

const onVip = (
  { local, ofInterfaces }: Host,
  servicePort: ServicePort,
  vip: Vip,
): VipPlacement => {
  const { protocol, family } = servicePort
  const over = nodePortOver(servicePort, vip)
  const at = over && local.has(over.address) ? over.address : vip.address
  const addresses = bindAddresses(protocol, at, ofInterfaces)
  if (addresses.length === 0) return { vip, ...noAddress(family) }
  const binds = addresses.map(address => ({ address, port: vip.port }))
  return { vip, capture: 'local', binds, reason: '' }
}

/**
 * The node port that has the port of another VIP of the same ServicePort, whose clients get
 * the same. It is listened on at every address, and the kernel allows no second TCP
 * listener at one of them (EADDRINUSE, socket(7), SO_REUSEADDR).
 */
const nodePortOver = (servicePort: ServicePort, { kind, port }: Vip): Vip | undefined => {
  if (servicePort.protocol !== 'TCP') return undefined
  const groups = vipGroups(servicePort)
  return servicePort.vips.find(
    other =>
      other.kind === 'NodePort' &&
      other.port === port &&
      groups.NodePort === groups[kind],
  )
}

type Where = Omit<VipPlacement, 'vip'>

const notLocal = ({ advice }: ListenCaptureDeps): Where => ({
  capture: 'not captured',
  binds: [],
  reason: ['not an address of this host', advice ?? autoAdvice]
    .filter(Boolean)
    .join('; '),
})

const autoAdvice = '--capture auto would give it a proxy port'

const noAddress = (family: IpFamily): Where => ({
  capture: 'not captured',
  binds: [],
  reason: `this host has no ${family} address`,
})

const proxyPort = async (
  deps: ListenCaptureDeps,
  { ofInterfaces }: Host,
  servicePort: ServicePort,
  portId: string,
): Promise<Where> => {
  const { protocol, family } = servicePort
  const address = proxyAddress(deps.bindAddress, family)
  if (address === undefined) {
    const reason = `--bind-address ${deps.bindAddress} is not an ${family} address`
    return { capture: 'not captured', binds: [], reason }
  }
  const addresses = bindAddresses(protocol, address, ofInterfaces)
  if (addresses.length === 0) return noAddress(family)
  const port = await deps.proxyPorts.portFor(portId, protocol, addresses)
  if (port === undefined) {
    return { capture: 'not captured', binds: [], reason: noPort(deps, address) }
  }
  return {
    capture: 'none',
    binds: addresses.map(one => ({ address: one, port })),
    reason: '',
  }
}

/** A wildcard stands for the wildcard of either family. */
const proxyAddress = (bindAddress: string, family: IpFamily): string | undefined => {
  if (isWildcard(bindAddress)) return wildcardOf(family)
  return familyOf(bindAddress) === family ? bindAddress : undefined
}

const noPort = ({ proxyPortRange }: ListenCaptureDeps, address: string): string =>
  proxyPortRange === undefined
    ? `the system has no free port on ${address}`
    : `no port of ${proxyPortRange.first}-${proxyPortRange.last} is free on ${address}; widen --proxy-port-range`

const localOnes = async (
  localAddresses: LocalAddresses,
  servicePorts: readonly ServicePort[],
): Promise<ReadonlySet<string>> => {
  const addresses = new Set<string>()
  for (const { vips } of servicePorts) {
    for (const { address } of vips) addresses.add(address)
  }
  const local = new Set<string>()
  await forEachYielding(batches(addresses, probesAtOnce), async batch => {
    await Promise.all(
      batch.map(async address => {
        if (await localAddresses.has(address)) local.add(address)
      }),
    )
  })
  return local
}

function* batches<T>(items: Iterable<T>, size: number): Iterable<readonly T[]> {
  let batch: T[] = []
  for (const item of items) {
    batch.push(item)
    if (batch.length < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/** The list of interfaces costs a system call for each of them. */
const oncePerFamily = (
  ask: (family: IpFamily) => string[],
): ((family: IpFamily) => string[]) => {
  const known = new Map<IpFamily, string[]>()
  return family => {
    const addresses = known.get(family) ?? ask(family)
    known.set(family, addresses)
    return addresses
  }
}
