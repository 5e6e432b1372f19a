import { cidrContains, parseCidr } from '../util/cidr.ts'
import { type AddressPort, joinHostPort } from '../util/ip.ts'
import type { EndpointSlice, Service } from './service.ts'
import type { Here } from './service-ports.ts'
import type { Problem, ServicePort, Vip } from './snapshot.ts'

/** Whose endpoints are the API servers themselves, in every cluster. */
export const apiService = 'default/kubernetes'

/**
 * The ways to the API server, `address:port`: what the source dials, and the API servers' own
 * endpoints, which others of this node dial. A Service must not take one, lest whoever may write
 * Services takes nodes off the cluster: it keeps one only while it leads to the API servers alone.
 */
export class OwnWays {
  readonly #servers: ReadonlySet<string>
  readonly #all: ReadonlySet<string>
  readonly #ports: ReadonlySet<number>

  constructor(dials: readonly AddressPort[], apiSlices: readonly EndpointSlice[]) {
    const servers = apiSlices.flatMap(({ endpoints, ports }) =>
      endpoints.flatMap(({ address }) => ports.map(({ port }) => ({ address, port }))),
    )
    const all = [...dials, ...servers]
    this.#servers = new Set(servers.map(textOf))
    this.#all = new Set(all.map(textOf))
    this.#ports = new Set(all.map(({ port }) => port))
  }

  /** Whether a Service may have a VIP that is one, by its ports. */
  concern({ ports }: Service): boolean {
    return ports.some(
      ({ port, nodePort }) => this.#ports.has(port) || this.#ports.has(nodePort),
    )
  }

  /**
   * A ServicePort without the VIPs that must not be taken, or undefined where none is left; a problem
   * for each is added. The same object where there is none.
   */
  without(
    servicePort: ServicePort,
    here: Here,
    problems: Problem[],
  ): ServicePort | undefined {
    const { namespace, serviceName } = servicePort
    const vips = servicePort.vips.filter(vip => {
      if (!this.#isCut(servicePort, vip, here)) return true
      const message = `${textOf(vip)}/TCP is left out, as this node reaches the API server there; give another address or port, or lead it to the endpoints of Service ${apiService} alone`
      const object = `Service ${namespace}/${serviceName}`
      problems.push({ object, field: fields[vip.kind], message })
      return false
    })
    if (vips.length === servicePort.vips.length) return servicePort
    return vips.length === 0 ? undefined : { ...servicePort, vips }
  }

  #isCut(servicePort: ServicePort, { kind, address, port }: Vip, here: Here): boolean {
    if (servicePort.protocol !== 'TCP' || kind === 'ClusterIP' || kind === 'Route')
      return false
    const at = kind === 'NodePort' ? [...here.addresses, '127.0.0.1', '::1'] : [address]
    if (!at.some(one => this.#all.has(textOf({ address: one, port })))) return false
    const { endpoints } = servicePort.externalFromNode
    const leadsThere =
      endpoints.length > 0 && endpoints.every(one => this.#servers.has(textOf(one)))
    return !leadsThere || !letsIn(servicePort, here)
  }
}

const textOf = ({ address, port }: AddressPort): string => joinHostPort(address, port)

const fields: Readonly<Record<Vip['kind'], string>> = {
  ClusterIP: 'spec.clusterIPs',
  Route: 'spec.clusterIPs',
  ExternalIP: 'spec.externalIPs',
  LoadBalancerIP: 'status.loadBalancer.ingress',
  NodePort: 'spec.ports',
}

const letsIn = ({ sourceRanges }: ServicePort, { addresses }: Here): boolean =>
  sourceRanges === undefined ||
  sourceRanges
    .flatMap(text => parseCidr(text) ?? [])
    .some(range => addresses.some(address => cidrContains(range, address)))
