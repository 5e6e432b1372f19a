/** One collection of the API as Usher reads it. */
export interface Collection {
  /** `services`, for messages. */
  readonly resource: string
  /** Items of a list come without these two. `apiVersion` is that of the decoder. */
  readonly apiVersion: string
  readonly kind: string
  /** `/api/v1/services`. */
  readonly path: string
  readonly labelSelector?: string
  readonly fieldSelector?: string
  /** Only saves traffic: left out where the server does not know the field. */
  readonly fieldSelectorOptional?: boolean
}

/** Services of other proxies and headless ones stay away; the decoder drops what comes all the same. */
export const services: Collection = {
  resource: 'services',
  apiVersion: 'v1',
  kind: 'Service',
  path: '/api/v1/services',
  labelSelector: '!service.kubernetes.io/service-proxy-name',
  fieldSelector: 'spec.clusterIP!=None',
  fieldSelectorOptional: true,
}

/** Slices; where the API server has none (before 1.21), Endpoints. */
export const endpointSlices: readonly Collection[] = [
  {
    resource: 'endpointslices',
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    path: '/apis/discovery.k8s.io/v1/endpointslices',
    labelSelector: '!service.kubernetes.io/headless',
  },
  {
    resource: 'endpoints',
    apiVersion: 'v1',
    kind: 'Endpoints',
    path: '/api/v1/endpoints',
    labelSelector: '!service.kubernetes.io/headless',
  },
]

export const node = (name: string): Collection => ({
  resource: 'nodes',
  apiVersion: 'v1',
  kind: 'Node',
  path: '/api/v1/nodes',
  fieldSelector: `metadata.name=${name}`,
})

/** All but that one. */
export const otherNodes = (name: string): Collection => ({
  ...node(name),
  fieldSelector: `metadata.name!=${name}`,
})

/** From 1.33, as beta from 1.31; both have the same shape. */
export const serviceCIDRs: readonly Collection[] = ['v1', 'v1beta1'].map(version => ({
  resource: 'servicecidrs',
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  path: `/apis/networking.k8s.io/${version}/servicecidrs`,
}))
