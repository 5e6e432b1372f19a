import type { Endpoint, ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'

/** Services as snapshots have them, that change one at a time. */
export class Cluster {
  readonly #servicePorts = new Map<string, ServicePort>()

  /** @param services - so many, with two endpoints each */
  constructor(services: number) {
    for (let i = 0; i < services; i += 1) this.#put(clusterService(i, 0))
  }

  /** One of its two endpoints moves to an address that it did not have before. */
  moveEndpoint(i: number, generation: number): void {
    this.#put(clusterService(i, generation))
  }

  add(i: number): void {
    this.#put(clusterService(i, 0))
  }

  remove(i: number): void {
    this.#servicePorts.delete(clusterService(i, 0).key)
  }

  snapshot(): Snapshot {
    const servicePorts = new Map(this.#servicePorts)
    return { family: 'IPv4', servicePorts, healthChecks: new Map() }
  }

  #put(servicePort: ServicePort): void {
    this.#servicePorts.set(servicePort.key, servicePort)
  }
}

/** With one ClusterIP. The second endpoint's address follows the generation. */
const clusterService = (i: number, generation: number): ServicePort => {
  const endpoints = [
    endpointAt(addressOf(`10.${128 + (generation % 64)}`, i)),
    endpointAt(addressOf('10.192', i)),
  ]
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
