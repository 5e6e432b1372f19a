import type { AddressPort, IpFamily } from '../util/ip.ts'
import type { CheckEffects, EndpointSpec, Protocol, TrafficPolicy } from './service.ts'
import type { TrafficOptions } from './traffic.ts'

export type VipKind = 'ClusterIP' | 'ExternalIP' | 'LoadBalancerIP' | 'NodePort' | 'Route'

/** Whose clients get the `internal` target: a ClusterIP, or where a sidecar's route listens. */
export const isInternal = ({ kind }: { readonly kind: VipKind }): boolean =>
  kind === 'ClusterIP' || kind === 'Route'

/** An address and port that clients dial. A NodePort's address is its family's wildcard. */
export interface Vip {
  readonly kind: VipKind
  readonly address: string
  readonly port: number
}

/** One ip:port that serves a ServicePort, with its conditions. */
export interface Endpoint extends EndpointSpec {
  readonly port: number
  /** A check has found it down; it is neither ready nor serving, whatever its slice says. */
  readonly isDown?: true
}

/** Where the clients of some of a ServicePort's VIPs go. */
export interface Target {
  /**
   * `reject`: refuse at once, no endpoint serves anywhere. `drop`: keep silent; the
   * policy is Local, and endpoints are on other nodes only.
   */
  readonly verdict: 'forward' | 'reject' | 'drop'
  /** Those of `ServicePort.endpoints` that may get new connections; empty unless `forward`. */
  readonly endpoints: readonly Endpoint[]
}

/**
 * One port of one Service in one IP family, complete: what to listen for and where to
 * send it. Immutable; a ServicePort that did not change is the same object in the next
 * snapshot, so `===` is the diff.
 */
export interface ServicePort extends TrafficOptions {
  /** `namespace/name:port/PROTOCOL`; unique within a family. */
  readonly key: string
  /** `namespace/name:port`, without the colon when the port is unnamed. */
  readonly name: string
  readonly namespace: string
  readonly serviceName: string
  readonly portName: string
  readonly protocol: Protocol
  readonly family: IpFamily
  readonly vips: readonly Vip[]
  readonly affinityMs: number
  /** Of its Service: its endpoints are to be checked, and what follows. */
  readonly checks?: CheckEffects
  /**
   * Of its Service: it asks for the relay, or for what only that has. Never of SCTP, for which
   * there is no relay.
   */
  readonly relayed?: true
  /** All endpoints, in the order of their `ip:port` text. */
  readonly endpoints: readonly Endpoint[]
  /** What was asked for; what comes of it is in the targets. */
  readonly internalTrafficPolicy: TrafficPolicy
  readonly externalTrafficPolicy: TrafficPolicy
  /** For clients of ClusterIPs: internalTrafficPolicy. */
  readonly internal: Target
  /**
   * For clients of external IPs, load-balancer IPs and node ports that come from outside
   * the node: externalTrafficPolicy.
   */
  readonly external: Target
  /** The same for processes and pods of this node, whom externalTrafficPolicy spares. */
  readonly externalFromNode: Target
  /** All that any client may get now: the union of the targets, in the order of `endpoints`. */
  readonly reachable: readonly Endpoint[]
  /**
   * loadBalancerSourceRanges of this family, canonical CIDRs: who may use the load-balancer
   * IPs. Undefined: all clients; an empty list: none (all ranges are of the other family).
   */
  readonly sourceRanges: readonly string[] | undefined
  /**
   * Where the relay listens for each of `vips`, in their order: then that is the only endpoint of
   * each, whatever the lists of endpoints say. Undefined: rules lead to endpoints.
   */
  readonly steeredTo?: readonly AddressPort[]
}

/** What a load balancer learns on a Service's healthCheckNodePort. */
export interface ServiceHealthCheck {
  readonly namespace: string
  readonly serviceName: string
  readonly port: number
  /** Ready endpoints on this node, each address once. */
  readonly localReady: number
}

/** The immutable desired state of one IP family at one moment. */
export interface Snapshot {
  readonly family: IpFamily
  readonly servicePorts: ReadonlyMap<string, ServicePort>
  /** By `namespace/name` of the Service: type LoadBalancer, externalTrafficPolicy Local. */
  readonly healthChecks: ReadonlyMap<string, ServiceHealthCheck>
}

/** An object, or a part of one, that could not be honoured. */
export interface Problem {
  /** `Service default/web`, `EndpointSlice default/web-abc`. */
  readonly object: string
  /** `spec.ports[0].nodePort`; '' when it is about the whole object. */
  readonly field: string
  /** What is wrong and what would be right. */
  readonly message: string
}

/** `namespace/name:port`, as kube-proxy prints a ServicePortName. */
export const servicePortName = (
  namespace: string,
  service: string,
  port: string,
): string => `${namespace}/${service}${port === '' ? '' : `:${port}`}`
