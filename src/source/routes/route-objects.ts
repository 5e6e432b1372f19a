import {
  readyEndpoint,
  type Change,
  type EndpointSlice,
  type EndpointSpec,
  type Service,
} from '../../model/service.ts'
import { familyOf } from '../../util/ip.ts'
import type { SourceObject } from '../diff.ts'
import { isLoop, type Route, type RouteBackend } from './route.ts'

/** Where sidecar routes live; no namespace of a cluster meets them. */
const routeNamespace = 'route'

type AddressesOf = (host: string) => readonly string[]

/** A Service and a slice for each backend. */
export const routeObject = (route: Route, addressesOf: AddressesOf): SourceObject => {
  const namespace = routeNamespace
  const { name } = route
  const service = routeService(route)
  const slices = routeSlices(route, addressesOf).map((slice): Change => ({
    kind: 'EndpointSlice',
    namespace,
    name: slice.name,
    object: slice,
  }))
  return {
    key: name,
    changes: [{ kind: 'Service', namespace, name, object: service }, ...slices],
  }
}

/** The route's only port is unnamed. */
const routeService = (route: Route): Service => ({
  namespace: routeNamespace,
  name: route.name,
  // The same for all: no two routes claim one address, and where one stands among the
  // others is nothing that it could change by.
  createdAt: 1,
  clusterIPs: [route.listen.address],
  externalIPs: [],
  loadBalancerIPs: [],
  ports: [{ name: '', protocol: route.protocol, port: route.listen.port, nodePort: 0 }],
  affinityMs: route.affinityMs,
  ...(route.retry !== undefined && { retry: route.retry }),
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  sourceRanges: undefined,
  healthCheckNodePort: 0,
})

/**
 * One slice for each backend, as a slice has one port number for all its endpoints. Its
 * family is that of the listen address, for that is where its Service looks for it; the
 * endpoints themselves may be of the other.
 */
const routeSlices = (route: Route, addressesOf: AddressesOf): EndpointSlice[] =>
  route.backends.map(({ host, port, tier }, i) => ({
    namespace: routeNamespace,
    name: `${route.name}-${i}`,
    serviceName: route.name,
    family: familyOf(route.listen.address) ?? 'IPv4',
    endpoints: addressesOf(host)
      .filter(address => !isLoop(route.listen, address, port))
      .map(address => inTier(readyEndpoint(address), tier)),
    ports: [{ name: '', protocol: route.protocol, port }],
    lastChangeTriggerTime: 0,
  }))

const inTier = (endpoint: EndpointSpec, tier: number): EndpointSpec =>
  tier === 0 ? endpoint : { ...endpoint, tier }

/** The addresses of a backend that are the route itself. */
export const loopsOf = (
  route: Route,
  { host, port }: RouteBackend,
  addressesOf: AddressesOf,
): readonly string[] =>
  addressesOf(host).filter(address => isLoop(route.listen, address, port))
