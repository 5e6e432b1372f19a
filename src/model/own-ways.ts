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

  /** Without the VIPs that must not be taken; undefined where none is left. The same where all are. */
  without(servicePort: ServicePort, here: Here): ServicePort | undefined {
    const vips = servicePort.vips.filter(vip => !this.#isCut(servicePort, vip, here))
    if (vips.length === servicePort.vips.length) return servicePort
    return vips.length === 0 ? undefined : { ...servicePort, vips }
  }

  /** One problem for each VIP that `without` leaves out. */
  problems(servicePort: ServicePort, here: Here): readonly Problem[] {
    return servicePort.vips.flatMap(vip => {
      if (!this.#isCut(servicePort, vip, here)) return []
      const { namespace, serviceName } = servicePort
      return {
        object: `Service ${namespace}/${serviceName}`,
        field: fields[vip.kind],
        message: `${joinHostPort(vip.address, vip.port)}/TCP is left out, as this node reaches the API server there; give another address or port, or lead it to the endpoints of Service ${apiService} alone`,
      }
    })
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
