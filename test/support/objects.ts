import {
  readyEndpoint,
  type Change,
  type EndpointSlice,
  type EndpointSpec,
  type Node,
  type Service,
  type ServiceCIDR,
  type ServicePortSpec,
} from '../../src/model/service.ts'

/** Objects of the model, in all but `over` the plainest. */

/** TCP port 80 called http. */
export const portSpec = (over: Partial<ServicePortSpec> = {}): ServicePortSpec => ({
  name: 'http',
  protocol: 'TCP',
  port: 80,
  nodePort: 0,
  ...over,
})

/** `default/<name>` on 10.0.0.1 with the port http. */
export const service = (name = 'web', over: Partial<Service> = {}): Service => ({
  namespace: 'default',
  name,
  createdAt: 0,
  clusterIPs: ['10.0.0.1'],
  externalIPs: [],
  loadBalancerIPs: [],
  ports: [portSpec()],
  affinityMs: 0,
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  sourceRanges: undefined,
  healthCheckNodePort: 0,
  ...over,
})

/** A ready one that nobody knows the place of. */
export const endpoint = (
  address: string,
  over: Partial<EndpointSpec> = {},
): EndpointSpec => ({
  ...readyEndpoint(address),
  ...over,
})

export const terminating = { ready: false, serving: true, terminating: true } as const
export const notReady = { ready: false, serving: false, terminating: false } as const

/** `default/web-1` of the Service web, whose port http is 8080. */
export const slice = (
  endpoints: readonly (EndpointSpec | string)[],
  over: Partial<EndpointSlice> = {},
): EndpointSlice => ({
  namespace: 'default',
  name: 'web-1',
  serviceName: 'web',
  family: 'IPv4',
  endpoints: endpoints.map(each => (typeof each === 'string' ? endpoint(each) : each)),
  ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
  lastChangeTriggerTime: 0,
  ...over,
})

export const node = (name = 'n1', over: Partial<Node> = {}): Node => ({
  name,
  zone: '',
  addresses: [],
  podCIDRs: [],
  leaving: false,
  ...over,
})

/** The object appeared, or is now like this. */
export const put = (object: Service | EndpointSlice | Node | ServiceCIDR): Change => {
  if ('cidrs' in object) return { kind: 'ServiceCIDR', name: object.name, object }
  if ('podCIDRs' in object) return { kind: 'Node', name: object.name, object }
  const { namespace, name } = object
  return 'serviceName' in object
    ? { kind: 'EndpointSlice', namespace, name, object }
    : { kind: 'Service', namespace, name, object }
}

/** An object of the namespace default, or of none, went away. */
export const gone = (kind: Change['kind'], name: string): Change =>
  kind === 'Service' || kind === 'EndpointSlice'
    ? { kind, namespace: 'default', name, object: undefined }
    : { kind, name, object: undefined }
