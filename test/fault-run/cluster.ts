import {
  endpoint,
  endpointsObject,
  type EndpointOver,
  nodeObject,
  serviceObject,
  sliceObject,
} from '../support/api-server/builders.ts'
import type { ApiServer } from '../support/api-server/server.ts'
import { backendAddresses, backendPorts, clusterIP, servicePorts } from './addresses.ts'
import type { Held } from './oracle.ts'
import {
  brokenMark,
  isBroken,
  labelOf,
  labels,
  type RawNode,
  type RawPort,
  type RawService,
  type RawSlice,
  vipMark,
} from './raw.ts'

export const nodeName = 'node-1'
export const zones = ['zone-a', 'zone-b'] as const
export const leavingTaint = 'ToBeDeletedByClusterAutoscaler'

/** An endpoint on one of the backends. */
export interface Member extends EndpointOver {
  /** Index of the backend. */
  readonly at: number
}

/** The objects of the test server as the fault run sees and changes them. */
export class Cluster {
  readonly server: ApiServer

  constructor(server: ApiServer) {
    this.server = server
  }

  get services(): RawService[] {
    return this.server.objects('services') as RawService[]
  }

  get node(): RawNode | undefined {
    return this.server.get('nodes', nodeName, '') as RawNode | undefined
  }

  slicesOf(service: string): RawSlice[] {
    return (this.server.objects('endpointslices') as RawSlice[]).filter(
      slice => labelOf(slice, labels.serviceName) === service,
    )
  }

  /** What a proxy of this node has to serve now; `knownZone`: that of a Node that is gone, as the proxy knew it last. */
  held(knownZone = ''): Held {
    const { server, node } = this
    return {
      services: this.services,
      endpoints: server.objects('endpointslices') as RawSlice[],
      place: {
        nodeName,
        zone: node === undefined ? knownZone : (labelOf(node, labels.zone) ?? ''),
        isGone: node === undefined,
      },
    }
  }

  /** Puts a Service there on the addresses of number `vip`. */
  putService(name: string, vip: number, over: ServiceOver): void {
    const { spec, status, labels: given, broken = false } = over
    const annotations = {
      [vipMark]: String(vip),
      ...(broken && { [brokenMark]: 'true' }),
    }
    const object = serviceObject(name, clusterIP(vip), {
      annotations,
      ...(given && { labels: given }),
      ...(spec && { spec }),
      ...(status && { status }),
    })
    this.server.apply(object)
  }

  /** Changes the spec of one that is there. */
  patchService(service: RawService, over: ServiceOver): void {
    this.server.apply({
      ...service,
      metadata: { ...service.metadata, ...(over.labels && { labels: over.labels }) },
      spec: { ...service.spec, ...over.spec },
      status: { ...service.status, ...over.status },
    })
  }

  removeService(name: string): void {
    this.server.delete('services', name)
    for (const { metadata } of this.slicesOf(name))
      this.server.delete('endpointslices', metadata.name)
    this.server.delete('endpoints', name)
  }

  putSlice(service: string, name: string, members: readonly Member[]): void {
    const endpoints = members.map(({ at, ...over }) =>
      endpoint(backendAddresses[at] ?? '', over),
    )
    this.server.apply(
      sliceObject(service, name, endpoints, { ports: this.slicePorts(service) }),
    )
  }

  putNode(zone: string, leaving: boolean): void {
    const taints = leaving ? [{ key: leavingTaint, effect: 'NoSchedule' }] : []
    this.server.apply(
      nodeObject(nodeName, '192.0.2.1', {
        labels: { [labels.zone]: zone },
        spec: { taints },
      }),
    )
  }

  /** Makes the v1 Endpoints what their controller would make of the slices. */
  mirror(service: string): void {
    const slices = this.slicesOf(service).filter(slice => !isBroken(slice))
    const ready = new Set<string>()
    const waiting = new Set<string>()
    for (const { addresses, conditions } of slices.flatMap(({ endpoints }) => endpoints))
      if (conditions.ready === true) ready.add(addresses[0] ?? '')
      else if (conditions.terminating !== true) waiting.add(addresses[0] ?? '')
    const subset = (addresses: Iterable<string>) =>
      [...addresses].map(ip => ({ ip, nodeName: nodeOfAddress(ip) }))
    this.server.apply({
      ...endpointsObject(service, []),
      subsets: [
        {
          addresses: subset(ready),
          notReadyAddresses: subset([...waiting].filter(ip => !ready.has(ip))),
          ports: this.slicePorts(service),
        },
      ],
    })
  }

  /** Those that a controller would give the slices of a Service. */
  slicePorts(service: string): (RawPort & Readonly<Record<string, unknown>>)[] {
    const found = this.services.find(({ metadata }) => metadata.name === service)
    return (found?.spec.ports ?? []).map(({ name = '', protocol, port }) => ({
      name,
      protocol,
      port: port === servicePorts.admin ? backendPorts.admin : backendPorts.main,
    }))
  }
}

export interface ServiceOver {
  readonly spec?: Readonly<Record<string, unknown>>
  readonly status?: Readonly<Record<string, unknown>>
  readonly labels?: Readonly<Record<string, string>>
  readonly broken?: boolean
}

/** Every other backend is on this node. */
export const nodeOf = (at: number): string => (at % 2 === 0 ? nodeName : 'node-2')
export const zoneOf = (at: number): string => zones[at % 3 === 0 ? 0 : 1]

const nodeOfAddress = (ip: string): string => nodeOf(backendAddresses.indexOf(ip))
