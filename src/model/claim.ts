import {
  type AddressPort,
  familyOf,
  joinHostPort,
  wildcardOf,
  type IpFamily,
} from '../util/ip.ts'
import type { Service, ServicePortSpec } from './service.ts'
import type { Vip, VipKind, Problem } from './snapshot.ts'

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
const portsWithTakenName = (service: Service): ReadonlySet<number> => {
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
const compareClaims = (a: Claim, b: Claim): number =>
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

/** A claim and the rival that has its VIP. */
export interface Loss {
  readonly claim: Claim
  readonly holder: Claim
}

/**
 * Who keeps each VIP: of all that claim it the one that compareClaims puts first,
 * whatever the order in which they came. A loser loses that one VIP and no more.
 */
export class VipClaims {
  readonly #byService = new Map<string, readonly Claim[]>()
  /** Never empty; the holder comes first, the others in no order. */
  readonly #claimants = new Map<string, Claim[]>()

  /** The claims of a Service that hold their VIP, in the order of claimsOf. */
  wonBy(service: string): readonly Claim[] {
    return this.#claimsOf(service).filter(claim => this.#holderOf(claim) === claim)
  }

  /** Its other claims, each with the one that holds the VIP. */
  lostBy(service: string): readonly Loss[] {
    return this.#claimsOf(service).flatMap(claim => {
      const holder = this.#holderOf(claim)
      return holder === undefined || holder === claim ? [] : { claim, holder }
    })
  }

  /**
   * Takes in Services by `namespace/name`, undefined for one that went, and decides anew
   * only the VIPs they claim or claimed. Returns every Service that won or lost a VIP by
   * it, or lost to another holder than before; the changed ones are always among them.
   */
  update(changed: ReadonlyMap<string, Service | undefined>): ReadonlySet<string> {
    const holders = new Map<string, Claim | undefined>()
    for (const service of changed.keys()) this.#withdraw(service, holders)
    for (const [key, service] of changed) {
      if (service !== undefined) this.#enter(key, service, holders)
    }
    const affected = new Set(changed.keys())
    for (const [key, before] of holders) {
      const claimants = this.#claimants.get(key)
      if (claimants === undefined) continue
      putHolderFirst(claimants)
      const [holder] = claimants
      if (before && holder && compareClaims(before, holder) === 0) continue
      for (const { service } of claimants) affected.add(serviceKey(service))
    }
    return affected
  }

  #claimsOf(service: string): readonly Claim[] {
    return this.#byService.get(service) ?? []
  }

  #holderOf(claim: Claim): Claim | undefined {
    return this.#claimants.get(claim.key)?.[0]
  }

  #withdraw(service: string, holders: Map<string, Claim | undefined>): void {
    for (const claim of this.#claimsOf(service)) {
      const claimants = this.#claimants.get(claim.key) ?? []
      if (!holders.has(claim.key)) holders.set(claim.key, claimants[0])
      claimants.splice(claimants.indexOf(claim), 1)
      if (claimants.length === 0) this.#claimants.delete(claim.key)
    }
    this.#byService.delete(service)
  }

  #enter(key: string, service: Service, holders: Map<string, Claim | undefined>): void {
    const claims = claimsOf(service)
    this.#byService.set(key, claims)
    for (const claim of claims) {
      const claimants = this.#claimants.get(claim.key)
      if (!holders.has(claim.key)) holders.set(claim.key, claimants?.[0])
      if (claimants === undefined) this.#claimants.set(claim.key, [claim])
      else claimants.push(claim)
    }
  }
}

const serviceKey = ({ namespace, name }: Service): string => `${namespace}/${name}`

const putHolderFirst = (claimants: Claim[]): void => {
  let first = 0
  for (const [index, claim] of claimants.entries()) {
    const best = claimants[first]
    if (best !== undefined && compareClaims(claim, best) < 0) first = index
  }
  if (first > 0) claimants.unshift(...claimants.splice(first, 1))
}

/**
 * What of a Service could not be honoured: ports without a name of their own, and
 * each VIP that it claims and another holds.
 */
export const serviceProblems = (
  service: Service,
  losses: readonly Loss[],
): readonly Problem[] => {
  const object = `Service ${service.namespace}/${service.name}`
  const problems = new Map<string, Problem>()
  const add = (field: string, message: string): void => {
    // A node port lost to one Service in both families is one problem, not two.
    problems.set(`${field} ${message}`, { object, field, message })
  }
  for (const index of portsWithTakenName(service)) {
    const name = service.ports[index]?.name ?? ''
    const named = name === '' ? 'has no name' : `is named ${name}`
    add(
      `spec.ports[${index}].name`,
      `an earlier port of the same protocol ${named} too; give each port a name of its own`,
    )
  }
  for (const loss of losses) add(...describe(loss))
  return [...problems.values()]
}

const describe = ({ claim, holder }: Loss): [field: string, message: string] => {
  const { service, portIndex, vip, field } = claim
  const winner = holder.service
  const protocol = isHealthCheck(claim) ? 'TCP' : service.ports[portIndex]?.protocol
  const isNodePort = vip.kind === 'NodePort'
  const what = isNodePort
    ? `node port ${vip.port}/${protocol}`
    : `${joinHostPort(vip.address, vip.port)}/${protocol}`
  if (service === winner) {
    // The address is as it should be; the port repeats an earlier one.
    return [
      isNodePort ? field : `spec.ports[${portIndex}].port`,
      `${what} is taken by ${fieldOf(holder)}; choose another port`,
    ]
  }
  return [
    field,
    `${what} is held by Service ${winner.namespace}/${winner.name}${isHealthCheck(holder) ? ' (its healthCheckNodePort)' : ''}, which goes first by age or name; choose another ${isNodePort ? 'node port' : 'address or port'}`,
  ]
}

const fieldOf = (claim: Claim): string =>
  isHealthCheck(claim) ? claim.field : `spec.ports[${claim.portIndex}]`
