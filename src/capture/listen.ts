import { isDeepStrictEqual } from 'node:util'
import type { Problem, ServicePort, Vip } from '../model/snapshot.ts'
import {
  familyOf,
  ipFamilies,
  type IpFamily,
  isWildcard,
  wildcardOf,
} from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import {
  type Capture,
  listenerId,
  type Placement,
  type VipPlacement,
  type PlacementKind,
} from './capture.ts'
import {
  interfaceAddresses,
  whichAreLocal,
  bindAddresses,
  type LocalAddresses,
} from './local-addresses.ts'
import { vipGroupNames, possibleGroups, type VipGroup, vipGroups } from './vip-group.ts'
import { cidrContains, parseCidr } from '../util/cidr.ts'
import type { PortRange, ProxyPorts } from './proxy-ports.ts'

/**
 * The two captures that need no rules of the kernel's: clients dial an address on which
 * the relay itself listens, the VIP or a proxy port. Also what finds proxy ports for the
 * captures with rules.
 */
export class ListenCapture implements Capture {
  readonly #deps: ListenCaptureDeps
  readonly #placements = new KeyedList<ServicePort, Placement>(listenerId)
  /** Of the answers of LocalAddresses that the placements rest on. */
  #era = 0
  /** The proxy addresses and node-port CIDRs that they rest on, and how many proxy ports were lost. */
  #basis = ''
  /** Whether some VIP got no proxy port, as far as is known. */
  #short = false

  constructor(deps: ListenCaptureDeps) {
    this.#deps = deps
  }

  /** What the host has for addresses is looked at anew for all when it may be old. */
  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    const { mode, localAddresses, proxyPorts } = this.#deps
    const { era } = localAddresses
    const basis = basisOf(this.#deps)
    const all = era !== this.#era || basis !== this.#basis
    const suspects = all ? servicePorts : this.#placements.changed(servicePorts)
    const hasProxyPorts = mode === 'none' || mode === 'listen'
    const local =
      mode === 'none' ? new Set<string>() : await whichAreLocal(localAddresses, suspects)
    const host = hostOf(this.#deps, local)
    const make = async (servicePort: ServicePort, before: Placement | undefined) => {
      const placement = await placeServicePort(this.#deps, host, servicePort)
      if (hasProxyPorts && placement.vips.some(isNotCaptured)) this.#short = true
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
    this.#basis = basis
    if (all || !wasShort || !released) return placements
    // A port that was released may do for VIPs that got none: all are looked at once more.
    this.#era = 0
    return this.place(servicePorts)
  }

  /** Clients dial where the relay listens: there is nothing to lead. */
  async steer(): Promise<void> {}

  problems(): readonly Problem[] {
    return []
  }

  /** Not possible without rules: clients who dial while there is no listener are refused. */
  async hold(): Promise<void> {}

  async close(): Promise<void> {}
}

const basisOf = ({
  proxyAddress,
  nodePortCidrs,
  proxyPorts,
}: ListenCaptureDeps): string =>
  JSON.stringify([
    ...ipFamilies.map(one => [proxyAddress(one), nodePortCidrs?.(one)]),
    proxyPorts.losses,
  ])

const hostOf = (deps: ListenCaptureDeps, local: ReadonlySet<string>): Host => ({
  local,
  ofInterfaces: oncePerFamily(deps.ofInterfaces ?? interfaceAddresses),
  nodePortCidrs: oncePerFamily(family => deps.nodePortCidrs?.(family)),
})

const isNotCaptured = ({ capture }: VipPlacement): boolean => capture === 'not captured'

const samePlacement = (a: Placement, b: Placement): boolean =>
  a.servicePort === b.servicePort && isDeepStrictEqual(a.vips, b.vips)

/** The list of interfaces costs a system call for each of them. */
const oncePerFamily = <T>(ask: (family: IpFamily) => T): ((family: IpFamily) => T) => {
  const known = new Map<IpFamily, { readonly answer: T }>()
  return family => {
    const found = known.get(family) ?? { answer: ask(family) }
    known.set(family, found)
    return found.answer
  }
}

/**
 * Proxy ports on the address of --bind-address. A wildcard stands for the wildcard of either family,
 * and '' for loopback.
 */
export const boundProxyAddress =
  (bindAddress: string) =>
  (family: IpFamily): ProxyAddress => {
    if (bindAddress === '') return { address: loopback[family] }
    if (isWildcard(bindAddress)) return { address: wildcardOf(family) }
    if (familyOf(bindAddress) === family) return { address: bindAddress }
    return { reason: `--bind-address ${bindAddress} is not an ${family} address` }
  }

const loopback: Readonly<Record<IpFamily, string>> = { IPv4: '127.0.0.1', IPv6: '::1' }

/** The address on which proxy ports of a family are, or why there is none. */
type ProxyAddress = { readonly address: string } | { readonly reason: string }

export interface ListenCaptureDeps {
  /**
   * `local`: VIPs, which are made addresses of this host. `vips-only`: those that are anyway. `none`:
   * proxy ports. `listen`: VIPs where it can, else proxy ports.
   */
  readonly mode: 'listen' | 'local' | 'vips-only' | 'none'
  readonly proxyAddress: (family: IpFamily) => ProxyAddress
  /** What leads clients to the proxy ports, as placements say it; by default nothing. */
  readonly proxyKind?: 'none' | 'nftables' | 'iptables'
  readonly proxyPortRange: PortRange | undefined
  readonly localAddresses: Pick<LocalAddresses, 'era' | 'has'>
  readonly proxyPorts: Pick<ProxyPorts, 'portFor' | 'holds' | 'release' | 'losses'>
  /**
   * Canonical CIDRs: a node port is bound on those of the host's addresses that are in
   * one. Undefined, and by default: on all.
   */
  readonly nodePortCidrs?: (family: IpFamily) => readonly string[] | undefined
  /** The host's own addresses in one family; by default those of its interfaces. */
  readonly ofInterfaces?: (family: IpFamily) => string[]
  /**
   * Why a VIP that `local` or `vips-only` can't serve is not an address of this host, or what to do about
   * it; '' where there is nothing to say.
   */
  readonly advice?: string | ((address: string) => string)
  /** What a VIP served on itself can't be given; '', and by default, when nothing. */
  readonly remark?: (
    servicePort: ServicePort,
    kind: VipPlacement['vip']['kind'],
  ) => string
}

/** What is known of the host during one sync. */
interface Host {
  /** VIPs that are its own. */
  readonly local: ReadonlySet<string>
  readonly ofInterfaces: (family: IpFamily) => string[]
  /** See `ListenCaptureDeps`. */
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
}

/** The ServicePort's first proxy port, and those of VIPs whose clients get something else. */
export const proxyPortId = (id: string, group: VipGroup): string =>
  group === 'internal' ? id : `${id} ${group}`

/** Where the relay listens for one ServicePort. */
const placeServicePort = async (
  deps: ListenCaptureDeps,
  host: Host,
  servicePort: ServicePort,
): Promise<Placement> => {
  const id = listenerId(servicePort)
  const groups = vipGroups(servicePort)
  const vips: VipPlacement[] = []
  for (const vip of servicePort.vips) {
    if (host.local.has(vip.address)) vips.push(onVip(deps, host, servicePort, vip))
    else if (deps.mode === 'local' || deps.mode === 'vips-only')
      vips.push({ vip, ...notLocal(deps, vip) })
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

const onVip = (
  { mode, remark }: ListenCaptureDeps,
  host: Host,
  servicePort: ServicePort,
  vip: Vip,
): VipPlacement => {
  const { protocol, family } = servicePort
  const { local, ofInterfaces } = host
  const capture = mode === 'local' ? mode : 'listen'
  const cidrs = host.nodePortCidrs(family)
  if (vip.kind === 'NodePort' && cidrs !== undefined) {
    return { vip, ...onAddressesIn(cidrs, ofInterfaces(family), vip.port, capture) }
  }
  const over = cidrs === undefined ? nodePortOver(servicePort, vip) : undefined
  const at = over && local.has(over.address) ? over.address : vip.address
  const addresses = bindAddresses(protocol, at, ofInterfaces)
  if (addresses.length === 0) return { vip, ...noAddress(family) }
  const binds = addresses.map(address => ({ address, port: vip.port }))
  return { vip, capture, binds, reason: remark?.(servicePort, vip.kind) ?? '' }
}

const onAddressesIn = (
  cidrs: readonly string[],
  addresses: readonly string[],
  port: number,
  capture: PlacementKind,
): Where => {
  const blocks = cidrs.flatMap(cidr => parseCidr(cidr) ?? [])
  const chosen = new Set(
    addresses.filter(address => blocks.some(block => cidrContains(block, address))),
  )
  const binds = [...chosen].map(address => ({ address, port }))
  if (binds.length > 0) return { capture, binds, reason: '' }
  const asked = cidrs.join(', ') || 'none of this family'
  return nowhere(`no address of this host is in --nodeport-addresses (${asked})`)
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

const notLocal = (
  { advice = autoAdvice }: ListenCaptureDeps,
  { address }: Vip,
): Where => {
  const what = typeof advice === 'string' ? advice : advice(address)
  return nowhere(['not an address of this host', what].filter(Boolean).join('; '))
}

const autoAdvice = '--capture auto would give it a proxy port'

const nowhere = (reason: string): Where => ({
  capture: 'not captured',
  binds: [],
  reason,
})

const noAddress = (family: IpFamily): Where =>
  nowhere(`this host has no ${family} address`)

const proxyPort = async (
  deps: ListenCaptureDeps,
  { ofInterfaces }: Host,
  servicePort: ServicePort,
  portId: string,
): Promise<Where> => {
  const { protocol, family } = servicePort
  const where = deps.proxyAddress(family)
  if ('reason' in where) return nowhere(where.reason)
  const addresses = bindAddresses(protocol, where.address, ofInterfaces)
  if (addresses.length === 0) return noAddress(family)
  const port = await deps.proxyPorts.portFor(portId, protocol, addresses)
  if (port === undefined) return nowhere(noPort(deps, where.address))
  return {
    capture: deps.proxyKind ?? 'none',
    binds: addresses.map(one => ({ address: one, port })),
    reason: '',
  }
}

const noPort = ({ proxyPortRange }: ListenCaptureDeps, address: string): string =>
  proxyPortRange === undefined
    ? `the system has no free port on ${address}`
    : `no port of ${proxyPortRange.first}-${proxyPortRange.last} is free on ${address}; widen --proxy-port-range`
