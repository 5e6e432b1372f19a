import {
  readyEndpoint,
  type Change,
  type EndpointSlice,
  type EndpointSpec,
  type Service,
} from '../../model/service.ts'
import { familyOf } from '../../util/ip.ts'
import type { SourceObject } from '../diff.ts'
import type { Place } from './place.ts'
import { isLoop, type Route, type RouteBackend } from './route.ts'

/** Where sidecar routes live; no namespace of a cluster meets them. */
const routeNamespace = 'route'

/** `tcp-127-0-0-1-15432`: one for each listen address and protocol. */
export const nameOf = ({ protocol, listen }: Route): string =>
  `${protocol.toLowerCase()}-${listen.address.replaceAll(/[.:]/g, '-')}-${listen.port}`

/** Where a backend's connections may go. */
export type PlacesOf = (backend: RouteBackend) => readonly Place[]

/** A Service and a slice for each backend. `order` decides as a Service's age does. */
export const routeObject = (
  route: Route,
  order: number,
  placesOf: PlacesOf,
): SourceObject => {
  const namespace = routeNamespace
  const name = nameOf(route)
  const service = routeService(route, order)
  const slices = routeSlices(route, placesOf).map((slice): Change => ({
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
const routeService = (route: Route, order: number): Service => ({
  namespace: routeNamespace,
  name: nameOf(route),
  createdAt: order,
  clusterIPs: [route.listen.address],
  externalIPs: [],
  loadBalancerIPs: [],
  ports: [{ name: '', protocol: route.protocol, port: route.listen.port, nodePort: 0 }],
  affinityMs: route.affinityMs,
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  sourceRanges: undefined,
  healthCheckNodePort: 0,
})

/**
 * One slice for each port of a backend, as a slice has one port number for all its
 * endpoints. Its family is that of the listen address, for that is where its Service looks
 * for it; the endpoints themselves may be of the other.
 */
const routeSlices = (route: Route, placesOf: PlacesOf): EndpointSlice[] =>
  route.backends.flatMap((backend, i) => {
    const places = placesOf(backend).filter(place => !isOwn(route, place))
    const ports =
      backend.srv === true ? new Set(places.map(({ port }) => port)) : [backend.port]
    return [...ports].map(port => ({
      namespace: routeNamespace,
      name: `${nameOf(route)}-${i}${backend.srv === true ? `-${port}` : ''}`,
      serviceName: nameOf(route),
      family: familyOf(route.listen.address) ?? 'IPv4',
      endpoints: places.filter(place => place.port === port).map(endpointAt),
      ports: [{ name: '', protocol: route.protocol, port }],
      lastChangeTriggerTime: 0,
    }))
  })

const endpointAt = ({ address, tier }: Place): EndpointSpec =>
  tier === 0 ? readyEndpoint(address) : { ...readyEndpoint(address), tier }

/** The places of a backend that are the route itself. */
export const loopsOf = (
  route: Route,
  backend: RouteBackend,
  placesOf: PlacesOf,
): readonly Place[] => placesOf(backend).filter(place => isOwn(route, place))

const isOwn = ({ listen }: Route, { address, port }: Place): boolean =>
  isLoop(listen, address, port)
