import type { ServicePort, Target, Vip } from '../../src/model/snapshot.ts'

export const clusterIp = (address: string, port = 80): Vip => ({
  kind: 'ClusterIP',
  address,
  port,
})
export const nodePort = (address: string, port = 30080): Vip => ({
  kind: 'NodePort',
  address,
  port,
})

const nowhere: Target = { verdict: 'reject', endpoints: [] }

/** A ServicePort of snapshots, in all but `over` the plainest. */
export const servicePort = (
  name: string,
  over: Partial<ServicePort> = {},
): ServicePort => {
  const { protocol = 'TCP' } = over
  return {
    key: `default/${name}/${protocol}`,
    name: `default/${name}`,
    namespace: 'default',
    serviceName: name,
    portName: '',
    protocol,
    family: 'IPv4',
    vips: [clusterIp('10.0.0.1')],
    affinityMs: 0,
    endpoints: [],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    internal: nowhere,
    external: nowhere,
    externalFromNode: nowhere,
    reachable: [],
    sourceRanges: undefined,
    ...over,
  }
}
