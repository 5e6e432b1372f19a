import type { ServicePort, Vip } from '../model/snapshot.ts'
import { cidrContains, parseCidr } from '../util/cidr.ts'
import type { IpFamily } from '../util/ip.ts'
import {
  listenerId,
  type Placement,
  type PlacementKind,
  type VipPlacement,
} from './capture.ts'
import { bindAddresses, type LocalAddresses } from './local-addresses.ts'
import type { PortRange, ProxyPorts } from './proxy-ports.ts'
import { possibleGroups, type VipGroup, vipGroups } from './vip-group.ts'

/** The address on which proxy ports of a family are, or why there is none. */
export type ProxyAddress = { readonly address: string } | { readonly reason: string }

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
export interface Host {
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
export const placeServicePort = async (
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
  const reason = `no address of this host is in --nodeport-addresses (${asked})`
  return { capture: 'not captured', binds, reason }
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

const notLocal = ({ advice = autoAdvice }: ListenCaptureDeps, vip: Vip): Where => ({
  capture: 'not captured',
  binds: [],
  reason: [
    'not an address of this host',
    typeof advice === 'string' ? advice : advice(vip.address),
  ]
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
  const where = deps.proxyAddress(family)
  if ('reason' in where) {
    return { capture: 'not captured', binds: [], reason: where.reason }
  }
  const addresses = bindAddresses(protocol, where.address, ofInterfaces)
  if (addresses.length === 0) return noAddress(family)
  const port = await deps.proxyPorts.portFor(portId, protocol, addresses)
  if (port === undefined) {
    return { capture: 'not captured', binds: [], reason: noPort(deps, where.address) }
  }
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
