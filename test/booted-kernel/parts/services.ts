import { addressOf, type Addresses, answerPort, type HostName } from './network.ts'

export type ServiceName = 'in-pod' | 'on-node' | 'itself' | 'nobody'

/** Of its own address of both families; TCP and UDP. */
export interface VmService {
  readonly name: ServiceName
  readonly clusterIP: Addresses
  readonly nodePort?: number
  readonly endpoint?: HostName
}

export const servicePort = 80
export const serviceCidrs = '10.96.0.0/16,fd10:96::/112'

const clusterIP = (last: number): Addresses => ({
  IPv4: `10.96.0.${last}`,
  IPv6: `fd10:96::${last}`,
})

export const services: readonly VmService[] = [
  { name: 'in-pod', clusterIP: clusterIP(10), nodePort: 30080, endpoint: 'backend' },
  { name: 'on-node', clusterIP: clusterIP(11), endpoint: 'node' },
  // A pod that is the only endpoint of the Service that it dials.
  { name: 'itself', clusterIP: clusterIP(12), endpoint: 'client' },
  { name: 'nobody', clusterIP: clusterIP(13), nodePort: 30081 },
]

/** As a file for --manifests; JSON is YAML. */
export const manifests = (): string =>
  [...services.map(serviceObject), ...services.flatMap(sliceObjects)]
    .map(each => JSON.stringify(each))
    .join('\n---\n')

const protocols = ['TCP', 'UDP'] as const

const serviceObject = ({ name, clusterIP: ips, nodePort }: VmService): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: {
    type: nodePort === undefined ? 'ClusterIP' : 'NodePort',
    clusterIP: ips.IPv4,
    clusterIPs: [ips.IPv4, ips.IPv6],
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'RequireDualStack',
    ports: protocols.map(protocol => ({
      name: protocol.toLowerCase(),
      protocol,
      port: servicePort,
      targetPort: answerPort,
      ...(nodePort === undefined ? {} : { nodePort }),
    })),
  },
})

const sliceObjects = ({ name, endpoint }: VmService): object[] =>
  endpoint === undefined
    ? []
    : (['IPv4', 'IPv6'] as const).map(family => ({
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: {
          name: `${name}-${family.toLowerCase()}`,
          labels: { 'kubernetes.io/service-name': name },
        },
        addressType: family,
        endpoints: [{ addresses: [addressOf[endpoint][family]] }],
        ports: protocols.map(protocol => ({
          name: protocol.toLowerCase(),
          protocol,
          port: answerPort,
        })),
      }))
