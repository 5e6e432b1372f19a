import type { Endpoint, ServicePort } from '../model/snapshot.ts'
import type { ListenerStats } from '../relay/relay.ts'
import type { Clients, EndpointStatus } from './status.ts'
import { bindText } from './status-vip.ts'

const endpointState = ({
  ready,
  serving,
  terminating,
}: Endpoint): EndpointStatus['state'] =>
  ready ? 'ready' : serving && terminating ? 'terminating' : 'not ready'

/** Answers for an endpoint which clients may reach it. */
const clientsOf = (port: ServicePort): ((endpoint: Endpoint) => Clients) => {
  const internal = new Set(port.internal.endpoints)
  const targets: readonly (readonly [Clients, ReadonlySet<Endpoint>])[] = port.vips.every(
    ({ kind }) => kind === 'ClusterIP',
  )
    ? [['internal', internal]]
    : [
        ['internal', internal],
        ['external', new Set(port.external.endpoints)],
        ['node', new Set(port.externalFromNode.endpoints)],
      ]
  return endpoint => {
    const who = targets.filter(([, endpoints]) => endpoints.has(endpoint))
    if (who.length === targets.length) return 'all'
    return who.map(([name]) => name).join('+') || 'none'
  }
}

export const endpointStatuses = (
  servicePort: ServicePort,
  listener: ListenerStats | undefined,
): EndpointStatus[] => {
  const living = new Map(listener?.endpoints.map(stats => [stats.key, stats]))
  const reachable = new Set(servicePort.reachable)
  const clients = clientsOf(servicePort)
  return servicePort.endpoints.map(endpoint => {
    const key = bindText(endpoint)
    const stats = living.get(key)
    return {
      endpoint: key,
      state: endpointState(endpoint),
      eligible: reachable.has(endpoint),
      clients: clients(endpoint),
      active: stats?.active ?? 0,
      failures: stats?.failures ?? 0,
      resting: stats?.resting ?? false,
    }
  })
}
