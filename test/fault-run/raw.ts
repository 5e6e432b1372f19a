import type { RelayProtocol } from '../../src/model/service.ts'
import type { KubeObject } from '../support/api-server/kube-object.ts'

/** What the fault run writes into its objects, and reads from them. */
export interface RawService extends KubeObject {
  readonly spec: {
    readonly type?: string
    readonly clusterIP?: string
    readonly clusterIPs?: readonly string[]
    readonly externalIPs?: readonly string[]
    readonly ports: readonly RawServicePort[]
    readonly sessionAffinity?: string
    readonly sessionAffinityConfig?: { readonly clientIP: { timeoutSeconds: number } }
    readonly internalTrafficPolicy?: string
    readonly externalTrafficPolicy?: string
    readonly loadBalancerSourceRanges?: readonly string[]
  }
  readonly status: {
    readonly loadBalancer: {
      readonly ingress?: readonly { readonly ip: string; readonly ipMode?: string }[]
    }
  }
}

export interface RawServicePort {
  readonly name?: string
  readonly protocol: RelayProtocol
  readonly port: number
}

export interface RawSlice extends KubeObject {
  readonly addressType: string
  readonly endpoints: readonly RawEndpoint[]
  readonly ports: readonly RawPort[]
}

export interface RawEndpoint {
  readonly addresses: readonly string[]
  readonly conditions: {
    readonly ready?: boolean | null
    readonly serving?: boolean | null
    readonly terminating?: boolean | null
  }
  readonly nodeName?: string
  readonly zone?: string
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[]
    readonly forNodes?: readonly { readonly name: string }[]
  }
}

export interface RawPort {
  readonly name?: string
  readonly protocol: RelayProtocol
  readonly port: number
}

export interface RawEndpoints extends KubeObject {
  readonly subsets: readonly {
    readonly addresses?: readonly RawAddress[]
    readonly notReadyAddresses?: readonly RawAddress[]
    readonly ports: readonly RawPort[]
  }[]
}

export interface RawAddress {
  readonly ip: string
  readonly nodeName: string
}

export interface RawNode extends KubeObject {
  readonly spec: { readonly taints?: readonly { readonly key: string }[] }
}

export const labels = {
  proxyName: 'service.kubernetes.io/service-proxy-name',
  headless: 'service.kubernetes.io/headless',
  serviceName: 'kubernetes.io/service-name',
  zone: 'topology.kubernetes.io/zone',
} as const

/** Says, for the fault run alone, that an object has a value no API server would take. */
export const brokenMark = 'fault-run/broken'
/** The number of the addresses that a Service holds, also while it has none in its spec. */
export const vipMark = 'fault-run/vip'

export const isBroken = ({ metadata }: KubeObject): boolean =>
  metadata.annotations?.[brokenMark] !== undefined

export const labelOf = ({ metadata }: KubeObject, label: string): string | undefined =>
  metadata.labels?.[label]
