import { cidrContains, parseCidr } from '../util/cidr.ts'
import { type AddressPort, isLoopback, isWildcard, joinHostPort } from '../util/ip.ts'
import type { EndpointSlice, Service } from './service.ts'
import type { Here } from './service-ports.ts'
import type { Problem, ServicePort, Vip } from './snapshot.ts'

/** Whose endpoints are the API servers themselves, in every cluster. */
export const apiService = 'default/kubernetes'

/** A server of Usher's own, for metrics or health. */
export type OwnServer = AddressPort & { readonly flag: string }

/** What this host is, beside its Node. */
export interface Host {
  /** Servers of Usher's own; the same list while nothing of it changed. */
  readonly servers: () => readonly OwnServer[]
  /** Whether it has an address, but for those that it has for clients of Services. */
  readonly has: (address: string) => boolean
}

/**
 * The ways to the API server, `address:port`: what the source dials, and the API servers' own
 * endpoints, which others of this node dial; and those to Usher's own servers. A Service must not
 * take one, lest whoever may write Services takes nodes off the cluster: it keeps one to the API
 * server only while it leads to the API servers alone.
 */
export class OwnWays {
  readonly #servers: ReadonlySet<string>
  readonly #all: readonly AddressPort[]
  readonly #ports: ReadonlySet<number>
  readonly #dials: readonly AddressPort[]
  readonly #own: readonly OwnServer[]
  readonly #host: Host
  readonly #asked = new Map<string, boolean>()

  constructor(
    dials: readonly AddressPort[],
    apiSlices: readonly EndpointSlice[],
    host: Host,
  ) {
    const servers = apiSlices.flatMap(({ endpoints, ports }) =>
      endpoints.flatMap(({ address }) => ports.map(({ port }) => ({ address, port }))),
    )
    this.#servers = new Set(servers.map(textOf))
    this.#all = [...dials, ...servers]
    this.#dials = dials
    this.#host = host
    this.#own = host.servers()
    this.#ports = new Set([...this.#all, ...this.#own].map(({ port }) => port))
  }

  /** Whether they are others by now: the host may have got an address, or lost one. */
  isStale(dials: readonly AddressPort[]): boolean {
    if (dials !== this.#dials || this.#host.servers() !== this.#own) return true
    return [...this.#asked].some(([address, had]) => this.#host.has(address) !== had)
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
      const reason = this.#problemOf(servicePort, vip, here)
      if (reason === undefined) return true
      const message = `${textOf(vip)}/TCP is not served: ${reason}`
      const object = `Service ${namespace}/${serviceName}`
      problems.push({ object, field: fields[vip.kind], message })
      return false
    })
    if (vips.length === servicePort.vips.length) return servicePort
    return vips.length === 0 ? undefined : { ...servicePort, vips }
  }

  #problemOf(servicePort: ServicePort, vip: Vip, here: Here): string | undefined {
    const { kind } = vip
    if (servicePort.protocol !== 'TCP' || kind === 'Route') return undefined
    const own = this.#own.find(way => this.#takes(vip, way, here))
    if (own !== undefined)
      return `Usher's own server of ${own.flag} listens there; give another port`
    if (kind === 'ClusterIP' || !this.#all.some(way => this.#takes(vip, way, here)))
      return undefined
    const { endpoints } = servicePort.externalFromNode
    const leadsThere =
      endpoints.length > 0 && endpoints.every(one => this.#servers.has(textOf(one)))
    return leadsThere && letsIn(servicePort, here)
      ? undefined
      : `this node reaches the API server there; give another address or port, or lead it to the endpoints of Service ${apiService} alone`
  }

  #takes({ kind, address, port }: Vip, way: AddressPort, here: Here): boolean {
    if (way.port !== port) return false
    const isAny = isWildcard(way.address)
    if (kind === 'NodePort') return isAny || this.#isHere(way.address, here)
    return way.address === address || (isAny && this.#isHere(address, here))
  }

  #isHere(address: string, { addresses }: Here): boolean {
    if (isLoopback(address) || addresses.includes(address)) return true
    const has = this.#host.has(address)
    this.#asked.set(address, has)
    return has
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
