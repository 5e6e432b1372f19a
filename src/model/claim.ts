import {
  type AddressPort,
  familyOf,
  joinHostPort,
  wildcardOf,
  type IpFamily,
} from '../util/ip.ts'
import type { Service, ServicePortSpec } from './service.ts'
import type { Vip, VipKind } from './snapshot.ts'

/** One VIP that one port of a Service asks for. */
export interface Claim {
  /** `10.0.0.1:80/TCP`; two claims with the same one are rivals. */
  readonly key: string
  readonly service: Service
  /** Index in `service.ports`; its length for the port of the health check, which no endpoint has. */
  readonly portIndex: number
  readonly family: IpFamily
  readonly vip: Vip
  /** Where the Service asks for the address: `spec.externalIPs[1]`. */
  readonly field: string
}

interface Address {
  readonly kind: VipKind
  readonly address: string
  readonly family: IpFamily
  readonly field: string
  /** By default that of the Service. */
  readonly port?: number
}

/**
 * Every VIP a Service asks for, in the order of its ports and for each port ClusterIPs,
 * external IPs, load-balancer IPs, node ports; then its health check's port. An address that it lists twice counts as
 * what it is first, but for an external IP that is a load-balancer IP with source ranges, too:
 * whom they keep out comes in by neither. Nothing is asked for in a family in which there is no
 * ClusterIP.
 */
export const claimsOf = (service: Service): readonly Claim[] => {
  const addresses = addressesOf(service)
  const unnamable = portsWithTakenName(service)
  return [
    ...service.ports.flatMap((port, portIndex) =>
      unnamable.has(portIndex) ? [] : portClaims(service, port, portIndex, addresses),
    ),
    ...healthCheckClaims(service),
  ]
}

/** What a load balancer asks at is a node port like the others, and no two can have one number. */
const healthCheckClaims = (service: Service): readonly Claim[] => {
  const { healthCheckNodePort: nodePort, ports } = service
  const port = { name: '', protocol: 'TCP', port: 0, nodePort } as const
  return portClaims(service, port, ports.length, [])
}

/** Whether a claim is that of the health check's port. */
export const isHealthCheck = ({ service, portIndex }: Claim): boolean =>
  portIndex === service.ports.length

/**
 * The indices of ports whose name and protocol, which together name a ServicePort, an
 * earlier port has already. An API server refuses those; a manifest may hold them.
 */
export const portsWithTakenName = (service: Service): ReadonlySet<number> => {
  const names = new Set<string>()
  const taken = new Set<number>()
  for (const [index, { name, protocol }] of service.ports.entries()) {
    const full = `${name}/${protocol}`
    if (names.has(full)) taken.add(index)
    names.add(full)
  }
  return taken
}

/**
 * Negative when `a` goes before `b`: the older Service, then the smaller namespace and
 * name, then the earlier port. 0 only for claims of the same port.
 */
export const compareClaims = (a: Claim, b: Claim): number =>
  a.service.createdAt - b.service.createdAt ||
  compareText(a.service.namespace, b.service.namespace) ||
  compareText(a.service.name, b.service.name) ||
  a.portIndex - b.portIndex

const portClaims = (
  service: Service,
  { port, protocol, nodePort }: ServicePortSpec,
  portIndex: number,
  addresses: readonly Address[],
): readonly Claim[] => {
  const claims = new Map<string, Claim>()
  const add = ({ kind, address, family, field }: Address, at: number): void => {
    const key = `${joinHostPort(address, at)}/${protocol}`
    if (claims.has(key)) return
    const vip = { kind, address, port: at }
    claims.set(key, { key, service, portIndex, family, vip, field })
  }
  for (const address of addresses) add(address, address.port ?? port)
  if (nodePort !== 0) {
    const isPort = portIndex < service.ports.length
    const field = isPort
      ? `spec.ports[${portIndex}].nodePort`
      : 'spec.healthCheckNodePort'
    for (const family of familiesOf(service)) {
      add({ kind: 'NodePort', address: wildcardOf(family), family, field }, nodePort)
    }
  }
  return [...claims.values()]
}

/** A Service lives in a family exactly when it has a ClusterIP of it. */
const familiesOf = (service: Service): ReadonlySet<IpFamily> =>
  new Set(service.clusterIPs.flatMap(address => familyOf(address) ?? []))

const addressesOf = (service: Service): readonly Address[] => {
  if (service.listens !== undefined) return routeAddresses(service.listens)
  const families = familiesOf(service)
  const guarded = service.sourceRanges === undefined ? [] : service.loadBalancerIPs
  const found: Address[] = []
  const add = (kind: VipKind, address: string, field: string): void => {
    const family = familyOf(address)
    if (family === undefined || !families.has(family)) return
    found.push({ kind, address, family, field })
  }
  for (const address of service.clusterIPs) add('ClusterIP', address, 'spec.clusterIPs')
  for (const [index, address] of service.externalIPs.entries()) {
    if (!guarded.includes(address))
      add('ExternalIP', address, `spec.externalIPs[${index}]`)
  }
  // No index: entries without an IP or with ipMode Proxy were left out while decoding.
  for (const address of service.loadBalancerIPs) {
    add('LoadBalancerIP', address, 'status.loadBalancer.ingress')
  }
  return found
}

/** One ServicePort, with one balancer and one set of limits: in the family of its first. */
const routeAddresses = (listens: readonly AddressPort[]): readonly Address[] => {
  const family = familyOf(listens[0]?.address ?? '') ?? 'IPv4'
  const common = { kind: 'Route', family, field: 'listen' } as const
  return listens.map(({ address, port }) => ({ address, port, ...common }))
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
