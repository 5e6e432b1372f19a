import type { AddressPort, IpFamily } from '../util/ip.ts'
import type { TrafficOptions } from './traffic.ts'

/** SCTP is served by the kernel modes only: Node has no SCTP sockets. */
export type Protocol = 'TCP' | 'UDP' | 'SCTP'
/** What a relay carries. */
export type RelayProtocol = Exclude<Protocol, 'SCTP'>

export type TrafficPolicy = 'Cluster' | 'Local'

/** One `spec.ports[]` entry of a Service. `name` is '' for the single unnamed port. */
export interface ServicePortSpec {
  readonly name: string
  readonly protocol: Protocol
  readonly port: number
  /** 0 when the Service has no node port. */
  readonly nodePort: number
}

/** What becomes of the connections to an endpoint that a check finds down. */
export type OnDown = 'keep' | 'reset'

/** What follows from what checks say. */
export interface CheckEffects {
  readonly onDown?: OnDown | undefined
  /**
   * Which endpoints get new connections when all are down: all, or none. Undefined: none where the
   * check asks for a role, which it would be wrong to take from another.
   */
  readonly whenAllDown?: 'try' | 'refuse' | undefined
  /** What becomes of the connections to a backup when one that goes before it is up again. */
  readonly onBack?: 'keep' | 'reset' | undefined
}

/**
 * What Usher keeps of a v1 Service. Plain data, comparable by value.
 * A headless Service or one of type ExternalName has no VIPs and never reaches here.
 */
export interface Service extends TrafficOptions, CheckEffects {
  readonly namespace: string
  readonly name: string
  /** For Events about it; undefined where the object has none. */
  readonly uid?: string | undefined
  /**
   * Decides who keeps a VIP that two Services claim: the smaller wins, equal ones go
   * by namespace and name. Milliseconds since 1970 where the object says when it was
   * made, else a number its source gives out in the order of first sight.
   */
  readonly createdAt: number
  /** Canonical addresses, at most one of each family. */
  readonly clusterIPs: readonly string[]
  /** Of a sidecar's route, which is in no cluster: where it listens, one at least, of either family. */
  readonly listens?: readonly AddressPort[]
  readonly externalIPs: readonly string[]
  /** Ingress addresses whose ipMode is VIP (KEP-1860). */
  readonly loadBalancerIPs: readonly string[]
  readonly ports: readonly ServicePortSpec[]
  /** Sliding ClientIP affinity in milliseconds; 0 for none. */
  readonly affinityMs: number
  /** Endpoints of its TCP ports are checked, by a relay; undefined: they are not. */
  readonly onDown?: OnDown | undefined
  /** Its clients are to be carried by the relay also where the kernel carries those of others. */
  readonly relayed?: boolean | undefined
  /** For clients of ClusterIPs. */
  readonly internalTrafficPolicy: TrafficPolicy
  /** For those of external IPs, load-balancer IPs and node ports. */
  readonly externalTrafficPolicy: TrafficPolicy
  /**
   * loadBalancerSourceRanges, canonical CIDRs of both families. Undefined: all clients; an
   * empty list, when none that was given is of use: no client.
   */
  readonly sourceRanges: readonly string[] | undefined
  /** 0 unless the type is LoadBalancer and externalTrafficPolicy Local. */
  readonly healthCheckNodePort: number
}

export interface EndpointSpec {
  /** Canonical. */
  readonly address: string
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  /** '' when unknown. */
  readonly nodeName: string
  /** '' when unknown. */
  readonly zone: string
  /** hints.forZones and hints.forNodes, by name. */
  readonly zoneHints: readonly string[]
  readonly nodeHints: readonly string[]
  /** Used when those of lower tiers fail; 0 when it is not said. */
  readonly tier?: number | undefined
  /** Its share of the connections, beside others of its tier; 1 when it is not said. */
  readonly weight?: number | undefined
  /** Why connections to it are to be reset; one that is ready gets new ones all the same. */
  readonly cut?: 'down' | 'backup' | undefined
}

/** One that gets connections, of unknown node and zone. */
export const readyEndpoint = (address: string): EndpointSpec => ({
  address,
  ready: true,
  serving: true,
  terminating: false,
  nodeName: '',
  zone: '',
  zoneHints: [],
  nodeHints: [],
})

/** What checks say of an endpoint: who is picked and who is cut are two questions. */
export interface Verdict {
  readonly isDown: boolean
  readonly cut?: EndpointSpec['cut']
}

/** One that is down is listed, so that it is seen. */
export const judged = <Spec extends EndpointSpec>(
  endpoint: Spec,
  { isDown, cut }: Verdict,
): Spec => ({
  ...endpoint,
  ...(isDown && { ready: false, serving: false }),
  ...(cut !== undefined && { cut }),
})

/**
 * The endpoints whose UDP flows go on: those that serve, maybe while they terminate, or that their
 * Service publishes whether they serve or not (publishNotReadyAddresses: ready without serving). As
 * for TCP neither policies nor hints nor a deletion count. Where none serves, those that are only
 * not ready: a lone one that is so for a moment is not to lose the clients who only listen.
 */
export const flowKeepers = <Spec extends EndpointSpec>(
  endpoints: readonly Spec[],
): readonly Spec[] => {
  const serving = endpoints.filter(each => each.ready || each.serving)
  return serving.length > 0 ? serving : endpoints.filter(each => !each.terminating)
}

/** One port of an EndpointSlice; `name` '' matches the unnamed Service port. */
export interface SlicePort {
  readonly name: string
  readonly protocol: Protocol
  readonly port: number
}

/** What Usher keeps of a discovery.k8s.io/v1 EndpointSlice (or one v1 Endpoints subset). */
export interface EndpointSlice {
  readonly namespace: string
  readonly name: string
  /** The label kubernetes.io/service-name. */
  readonly serviceName: string
  readonly family: IpFamily
  readonly endpoints: readonly EndpointSpec[]
  readonly ports: readonly SlicePort[]
  /**
   * Epoch milliseconds of the annotation endpoints.kubernetes.io/last-change-trigger-time,
   * 0 when there is none: when what this slice reports happened.
   */
  readonly lastChangeTriggerTime: number
}

/** What Usher keeps of a v1 Node. */
export interface Node {
  readonly name: string
  /** The label topology.kubernetes.io/zone, '' when absent. */
  readonly zone: string
  /** status.addresses of type InternalIP, then ExternalIP. */
  readonly addresses: readonly string[]
  /** spec.podCIDRs, canonical. */
  readonly podCIDRs: readonly string[]
  /** It is being deleted, or the cluster autoscaler is about to (KEP-3836). */
  readonly leaving: boolean
}

/** What Usher keeps of a networking.k8s.io/v1 ServiceCIDR. */
export interface ServiceCIDR {
  readonly name: string
  /** Canonical, at most one of each family. */
  readonly cidrs: readonly string[]
}

/** One object that appeared or changed (`object`) or went away (`undefined`). */
export type Change =
  | { kind: 'Service'; namespace: string; name: string; object: Service | undefined }
  | {
      kind: 'EndpointSlice'
      namespace: string
      name: string
      object: EndpointSlice | undefined
    }
  | { kind: 'Node'; name: string; object: Node | undefined }
  | { kind: 'ServiceCIDR'; name: string; object: ServiceCIDR | undefined }
