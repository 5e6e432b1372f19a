import type { IpFamily } from '../util/ip.ts'
import { type Claim, isHealthCheck } from './claim.ts'
import type { Service } from './service.ts'
import type { ServiceHealthCheck, ServicePort } from './snapshot.ts'

/**
 * What a Service's healthCheckNodePort says in one family, from its ServicePorts of both.
 * Undefined when it has no such port (`won`: what it has of what it claims), or is not there in the
 * family.
 *
 * An endpoint that serves only because it terminates does not count: load balancers are
 * to look elsewhere while what still arrives is served (KEP-1669).
 */
export const healthCheckOf = (
  { namespace, name, healthCheckNodePort }: Service,
  won: readonly Claim[],
  servicePorts: readonly ServicePort[],
  family: IpFamily,
  nodeName: string,
): ServiceHealthCheck | undefined => {
  const isItsOwn = won.some(claim => claim.family === family && isHealthCheck(claim))
  if (!isItsOwn) return undefined
  const ports = servicePorts.filter(port => port.family === family)
  if (ports.length === 0) return undefined
  const local = new Set<string>()
  for (const { endpoints } of ports) {
    for (const endpoint of endpoints) {
      if (!endpoint.ready || nodeName === '') continue
      if (endpoint.nodeName === nodeName) local.add(endpoint.address)
    }
  }
  return {
    namespace,
    serviceName: name,
    port: healthCheckNodePort,
    localReady: local.size,
  }
}
