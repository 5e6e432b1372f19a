import type { Endpoint, ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'
import { SortedMap } from '../../src/model/sorted-map.ts'

/** An endpoint's address says by its second byte which one of its Service it is. */
export const mostEndpoints = 64

/** What is done to Services, in this order; endpoints change as often as is asked for. */
export const steps = [
  'first',
  'unchanged',
  'endpoint',
  'added',
  'removed',
  'full',
] as const

export type Step = (typeof steps)[number]

/** One that is made of another in the time of copying an array. */
export interface ClusterSnapshot extends Snapshot {
  readonly servicePorts: SortedMap<ServicePort>
}

/** Services as snapshots have them, that change one at a time. */
export class Cluster {
  readonly #endpoints: number
  /** How often an endpoint of each has moved. */
  readonly #moves = new Map<number, number>()
  #servicePorts: SortedMap<ServicePort>

  /** @param endpoints - that each Service has, at most `mostEndpoints` */
  constructor(services: number, endpoints = 2) {
    this.#endpoints = endpoints
    const all = Array.from({ length: services }, (_, i) => this.#service(i))
    this.#servicePorts = SortedMap.empty<ServicePort>().with(
      new Map(all.map(one => [one.key, one])),
    )
  }

  /** Its first endpoint moves to an address that it did not have before. */
  moveEndpoint(i: number): void {
    this.#moves.set(i, (this.#moves.get(i) ?? 0) + 1)
    this.add(i)
  }

  add(i: number): void {
    const one = this.#service(i)
    this.#edit(one.key, one)
  }

  remove(i: number): void {
    this.#edit(this.#service(i).key, undefined)
  }

  snapshot(): ClusterSnapshot {
    return {
      family: 'IPv4',
      servicePorts: this.#servicePorts,
      healthChecks: new Map(),
    }
  }

  #edit(key: string, servicePort: ServicePort | undefined): void {
    this.#servicePorts = this.#servicePorts.with(new Map([[key, servicePort]]))
  }

  #service(i: number): ServicePort {
    return clusterService(i, this.#endpoints, this.#moves.get(i) ?? 0)
  }
}

/** With one ClusterIP. The first endpoint's address follows how often it has moved. */
export const clusterService = (i: number, count: number, moves: number): ServicePort => {
  const endpoints = Array.from({ length: count }, (_, at) =>
    endpointAt(addressOf(at === 0 ? `10.${128 + (moves % 64)}` : `10.${191 + at}`, i)),
  )
  const target: Target = { verdict: 'forward', endpoints }
  const serviceName = `service-${String(i).padStart(5, '0')}`
  return {
    key: `bench/${serviceName}:http/TCP`,
    name: `bench/${serviceName}:http`,
    namespace: 'bench',
    serviceName,
    portName: 'http',
    protocol: 'TCP',
    family: 'IPv4',
    vips: [{ kind: 'ClusterIP', address: addressOf('10.96', i), port: 80 }],
    affinityMs: 0,
    endpoints,
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    internal: target,
    external: target,
    externalFromNode: target,
    reachable: endpoints,
    sourceRanges: undefined,
  }
}

/** The first 256 of a range stay unused. */
const addressOf = (prefix: string, i: number): string => {
  const host = 256 + i
  return `${prefix}.${host >> 8}.${host & 255}`
}

const endpointAt = (address: string): Endpoint => ({
  address,
  port: 8080,
  ready: true,
  serving: true,
  terminating: false,
  nodeName: 'node-2',
  zone: '',
  zoneHints: [],
  nodeHints: [],
})
