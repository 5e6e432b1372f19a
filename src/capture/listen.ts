import type { ServicePort, Vip } from '../model/snapshot.ts'
import { familyOf, type IpFamily, isWildcard, wildcardOf } from '../util/ip.ts'
import type { Capture, Placement, VipPlacement } from './capture.ts'
import { bindAddresses, type LocalAddresses } from './local-addresses.ts'
import type { PortRange, ProxyPorts } from './proxy-ports.ts'

export interface ListenCaptureDeps {
  /** `local`: VIPs of this host. `none`: proxy ports. `auto`: the first where it can. */
  readonly mode: 'auto' | 'local' | 'none'
  readonly bindAddress: string
  readonly proxyPortRange: PortRange | undefined
  readonly localAddresses: LocalAddresses
  readonly proxyPorts: ProxyPorts
  /** The host's own addresses in one family; by default those of its interfaces. */
  readonly ofInterfaces?: (family: IpFamily) => string[]
}

/** How many addresses are probed at the same time; each needs a descriptor. */
const probesAtOnce = 32

/**
 * The two captures that need no rules of the kernel's: clients dial an address on which
 * the relay itself listens, the VIP or a proxy port.
 */
export const listenCapture = (deps: ListenCaptureDeps): Capture => ({
  place: async servicePorts => {
    const local = await localVips(deps, servicePorts)
    const inUse = new Set(servicePorts.map(listenerId))
    const placements: Placement[] = []
    for (const servicePort of servicePorts) {
      placements.push(await placeOne(deps, servicePort, local, inUse))
    }
    return placements
  },
})

const listenerId = ({ family, key }: ServicePort): string => `${family} ${key}`

const placeOne = async (
  deps: ListenCaptureDeps,
  servicePort: ServicePort,
  local: ReadonlySet<string>,
  inUse: ReadonlySet<string>,
): Promise<Placement> => {
  const isLocal = ({ address }: Vip): boolean => local.has(address)
  const needsProxyPort = deps.mode !== 'local' && !servicePort.vips.every(isLocal)
  const proxy = needsProxyPort ? await proxyPort(deps, servicePort, inUse) : undefined
  const vips = servicePort.vips.map((vip): VipPlacement => {
    if (isLocal(vip)) return onVip(deps, servicePort, vip)
    return { vip, ...(proxy ?? notLocal) }
  })
  return { servicePort, listenerId: listenerId(servicePort), vips }
}

const onVip = (
  { ofInterfaces }: ListenCaptureDeps,
  { protocol, family }: ServicePort,
  vip: Vip,
): VipPlacement => {
  const addresses = bindAddresses(protocol, vip.address, ofInterfaces)
  if (addresses.length === 0) return { vip, ...noAddress(family) }
  const binds = addresses.map(address => ({ address, port: vip.port }))
  return { vip, capture: 'local', binds, reason: '' }
}

type Where = Omit<VipPlacement, 'vip'>

const notLocal: Where = {
  capture: 'not captured',
  binds: [],
  reason: 'not an address of this host; --capture auto would give it a proxy port',
}

const noAddress = (family: IpFamily): Where => ({
  capture: 'not captured',
  binds: [],
  reason: `this host has no ${family} address`,
})

const proxyPort = async (
  deps: ListenCaptureDeps,
  servicePort: ServicePort,
  inUse: ReadonlySet<string>,
): Promise<Where> => {
  const { protocol, family } = servicePort
  const address = proxyAddress(deps.bindAddress, family)
  if (address === undefined) {
    const reason = `--bind-address ${deps.bindAddress} is not an ${family} address`
    return { capture: 'not captured', binds: [], reason }
  }
  const addresses = bindAddresses(protocol, address, deps.ofInterfaces)
  if (addresses.length === 0) return noAddress(family)
  const id = listenerId(servicePort)
  const port = await deps.proxyPorts.portFor(id, protocol, addresses, inUse)
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

const localVips = async (
  { mode, localAddresses }: ListenCaptureDeps,
  servicePorts: readonly ServicePort[],
): Promise<ReadonlySet<string>> => {
  const local = new Set<string>()
  if (mode === 'none') return local
  const addresses = new Set(
    servicePorts.flatMap(({ vips }) => vips.map(vip => vip.address)),
  )
  localAddresses.keepOnly(addresses)
  const queue = addresses.values()
  const probe = async (): Promise<void> => {
    for (const address of queue) if (await localAddresses.has(address)) local.add(address)
  }
  await Promise.all(Array.from({ length: probesAtOnce }, probe))
  return local
}
