import type { KubeObject, Metadata } from './kube-object.ts'
import { managedFields } from './managed-fields.ts'

type Fields = Readonly<Record<string, unknown>>

/** What differs from the plain object. */
export interface Over {
  readonly namespace?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly metadata?: Fields
  readonly spec?: Fields
  readonly status?: Fields
}

/** A ClusterIP Service with one TCP port, 80 to 8080, as the API server gives it back. */
export const serviceObject = (
  name: string,
  clusterIP: string,
  over: Over = {},
): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: metadata(name, over, managedFields('kube-controller-manager', 'spec')),
  spec: {
    clusterIP,
    clusterIPs: [clusterIP],
    internalTrafficPolicy: 'Cluster',
    ipFamilies: [clusterIP.includes(':') ? 'IPv6' : 'IPv4'],
    ipFamilyPolicy: 'SingleStack',
    ports: [{ protocol: 'TCP', port: 80, targetPort: 8080 }],
    selector: { app: name },
    sessionAffinity: 'None',
    type: 'ClusterIP',
    ...over.spec,
  },
  status: { loadBalancer: {}, ...over.status },
})

export interface EndpointOver {
  readonly ready?: boolean | null
  readonly serving?: boolean | null
  readonly terminating?: boolean | null
  readonly nodeName?: string
  readonly zone?: string
  readonly hints?: Fields
}

/** One endpoint of a slice, ready unless said otherwise. */
export const endpoint = (address: string, over: EndpointOver = {}): Fields => {
  const { ready = true, serving = true, terminating = false, ...rest } = over
  return {
    addresses: [address],
    conditions: { ready, serving, terminating },
    nodeName: 'node-1',
    targetRef: {
      kind: 'Pod',
      name: `pod-${address.replaceAll(/[.:]/g, '-')}`,
      namespace: 'default',
      uid: '6a1f0c52-3d4e-4f5a-9b6c-7d8e9f0a1b2c',
    },
    zone: 'zone-a',
    ...rest,
  }
}

export interface SliceOver extends Over {
  readonly ports?: readonly Fields[]
  readonly addressType?: string
}

/** A slice of a Service; its one port is unnamed TCP 8080 unless said otherwise. */
export const sliceObject = (
  service: string,
  name: string,
  endpoints: readonly Fields[],
  over: SliceOver = {},
): KubeObject => {
  const labels = {
    'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
    'kubernetes.io/service-name': service,
    ...over.labels,
  }
  const more = {
    generateName: `${service}-`,
    ownerReferences: [ownerOf(service)],
    ...managedFields('kube-controller-manager', 'endpoints'),
  }
  return {
    addressType: over.addressType ?? 'IPv4',
    apiVersion: 'discovery.k8s.io/v1',
    endpoints,
    kind: 'EndpointSlice',
    metadata: metadata(name, { ...over, labels }, more),
    ports: over.ports ?? [{ name: '', port: 8080, protocol: 'TCP' }],
  }
}

/** The older form of the same: only addresses that are ready. */
export const endpointsObject = (
  service: string,
  addresses: readonly string[],
  port = 8080,
): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Endpoints',
  metadata: metadata(service, {}, managedFields('kube-controller-manager', 'subsets')),
  subsets: [
    {
      addresses: addresses.map(ip => ({ ip, nodeName: 'node-1' })),
      ports: [{ port, protocol: 'TCP' }],
    },
  ],
})

export const nodeObject = (
  name: string,
  address = '127.0.0.1',
  over: Over = {},
): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: metadata(
    name,
    {
      ...over,
      labels: {
        'kubernetes.io/hostname': name,
        'topology.kubernetes.io/zone': 'zone-a',
        ...over.labels,
      },
    },
    managedFields('kubelet', 'status'),
  ),
  spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24'], ...over.spec },
  status: {
    addresses: [
      { type: 'InternalIP', address },
      { type: 'Hostname', address: name },
    ],
    ...over.status,
  },
})

export const serviceCidrObject = (
  name: string,
  cidrs: readonly string[],
): KubeObject => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  metadata: metadata(name, {}, managedFields('kube-apiserver', 'spec')),
  spec: { cidrs },
  status: { conditions: [{ type: 'Ready', status: 'True', reason: '', message: '' }] },
})

const metadata = (
  name: string,
  { namespace, labels, annotations, metadata: more }: Over,
  extra: Fields,
): Metadata => ({
  name,
  ...(namespace === undefined ? {} : { namespace }),
  ...(labels === undefined ? {} : { labels }),
  ...(annotations === undefined ? {} : { annotations }),
  ...extra,
  ...more,
})

const ownerOf = (service: string): Fields => ({
  apiVersion: 'v1',
  blockOwnerDeletion: true,
  controller: true,
  kind: 'Service',
  name: service,
  uid: '0b9d8c7a-6e5f-4d3c-8b2a-190817263544',
})
