import type { IpFamily } from '../../../src/util/ip.ts'
import {
  addressOf,
  backendPort,
  podCidrs,
  secondAddress,
} from '../../support/net/addresses.ts'
import {
  type Allowed,
  clusterIpOf,
  externalIpOf,
  healthCheckPortOf,
  loadBalancerIpOf,
  nodePortOf,
  servicePort,
  type TestService,
} from './services.ts'

export const nodeName = 'node-1'
export const families = ['IPv4', 'IPv6'] as const
export const protocols = ['TCP', 'UDP'] as const

type OfFamily = (service: TestService, family: IpFamily) => string

const both = (of: OfFamily, service: TestService): string[] =>
  families.map(family => of(service, family))

/** The Node, and each Service with its slices, as the API has them. */
export const objectsOf = (services: readonly TestService[]): object[] => [
  nodeObject,
  ...services.flatMap(service => [
    serviceObject(service),
    ...families.map(family => sliceObject(service, family)),
  ]),
]

const nodeObject = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: nodeName },
  spec: { podCIDRs: families.map(family => podCidrs[family]) },
  status: {
    addresses: [addressOf.node, secondAddress].flatMap(each =>
      families.map(family => ({ type: 'InternalIP', address: each[family] })),
    ),
  },
}

const sourceRanges: Readonly<Record<Allowed, readonly string[]>> = {
  pods: [podCidrs.IPv4, podCidrs.IPv6],
  outside: [`${addressOf.outside.IPv4}/32`, `${addressOf.outside.IPv6}/128`],
  node: [`${addressOf.node.IPv4}/32`, `${addressOf.node.IPv6}/128`],
  nobody: ['192.0.2.255/32', '2001:db8:ffff::/64'],
}

const serviceObject = (service: TestService): object => {
  const { name, internal, external, allowed, byProxy, sticky } = service
  const clusterIPs = both(clusterIpOf, service)
  const ipMode = byProxy ? 'Proxy' : 'VIP'
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: {
      type: 'LoadBalancer',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: families,
      ipFamilyPolicy: 'RequireDualStack',
      externalIPs: both(externalIpOf, service),
      internalTrafficPolicy: internal,
      externalTrafficPolicy: external,
      sessionAffinity: sticky ? 'ClientIP' : 'None',
      ports: protocols.map(protocol => ({
        name: protocol.toLowerCase(),
        protocol,
        port: servicePort,
        nodePort: nodePortOf(service),
      })),
      ...(allowed === undefined
        ? {}
        : { loadBalancerSourceRanges: sourceRanges[allowed] }),
      ...(external === 'Local'
        ? { healthCheckNodePort: healthCheckPortOf(service) }
        : {}),
    },
    status: {
      loadBalancer: {
        ingress: both(loadBalancerIpOf, service).map(ip => ({ ip, ipMode })),
      },
    },
  }
}

const sliceObject = (service: TestService, family: IpFamily): object => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: `${service.name}-${family.toLowerCase()}`,
    namespace: 'default',
    labels: { 'kubernetes.io/service-name': service.name },
  },
  addressType: family,
  endpoints: service.backends.map(backend => ({
    addresses: [addressOf[backend][family]],
    conditions: { ready: true },
    nodeName: backend === 'backend-3' ? 'node-2' : nodeName,
  })),
  ports: protocols.map(protocol => ({
    name: protocol.toLowerCase(),
    protocol,
    port: backendPort,
  })),
})
