import {
  judged,
  readyEndpoint,
  type Change,
  type EndpointSlice,
  type EndpointSpec,
  type Service,
  type Verdict,
} from '../../model/service.ts'
import { servicePortName } from '../../model/snapshot.ts'
import { type ClientLists, trafficOf, type ServerNameRules } from '../../model/traffic.ts'
import { familyOf, joinHostPort } from '../../util/ip.ts'
import type { SourceObject } from '../diff.ts'
import { mostPlaces, type Place, placeAt } from './place.ts'
import { isLoop, type Route, type RouteBackend } from './route.ts'

/** Where sidecar routes live; no namespace of a cluster meets them. */
const routeNamespace = 'route'

/** Where a backend's connections may go. */
export type PlacesOf = (backend: RouteBackend) => readonly Place[]

/** What log and relay call a route. */
export const servicePortOf = ({ name }: Route): string =>
  servicePortName(routeNamespace, name, '')

/** The route that log and relay call so. */
export const routeNameOf = (servicePort: string): string =>
  servicePort.slice(routeNamespace.length + 1)

/**
 * A Service and a slice for each backend. `gone`: places whose connections are to be reset.
 * `clients`: what the route's lists come to.
 */
export const routeObject = (
  route: Route,
  placesOf: PlacesOf,
  judge: (place: Place) => Verdict = () => ({ isDown: false }),
  gone: readonly Place[] = [],
  clients?: ClientLists,
): SourceObject => {
  const namespace = routeNamespace
  const { name } = route
  const service = routeService(route, clients, namesOf(route, placesOf))
  const listed = [...routeSlices(route, placesOf, judge), ...goneSlices(route, gone)]
  const slices = listed.map((slice): Change => ({
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

/** What a route has become, with the endpoints that it had, and what goes with them. */
export const withEndpointsOf = (
  before: SourceObject,
  { key, changes }: SourceObject,
): SourceObject => {
  const [old, now] = [before.changes[0], changes[0]]
  if (old?.kind !== 'Service' || now?.kind !== 'Service' || !now.object) return before
  const { serverNames, proxyProtocol } = old.object ?? {}
  const object = { ...now.object, serverNames, proxyProtocol }
  const family = familyOf(object.listens?.[0]?.address ?? '') ?? 'IPv4'
  const slices = before.changes.map(one =>
    one.kind === 'EndpointSlice' && one.object
      ? { ...one, object: { ...one.object, family } }
      : one,
  )
  return { key, changes: [{ ...now, object }, ...slices.slice(1)] }
}

/** Whom its endpoints are for, by their keys in the relay. */
const namesOf = (route: Route, placesOf: PlacesOf): ServerNameRules | undefined => {
  const { pools, others } = route
  const keysOf = (backends: readonly RouteBackend[]): readonly string[] =>
    backends.flatMap(backend =>
      ownPlaces(route, backend, placesOf).map(({ address, port }) =>
        joinHostPort(address, port),
      ),
    )
  return (
    pools && {
      pools: pools.map(({ names, alpn, backends }) => ({
        names,
        alpn,
        endpoints: keysOf(backends),
      })),
      others: others && keysOf(others),
    }
  )
}

/** The route's only port is unnamed. */
const routeService = (
  route: Route,
  clients: ClientLists | undefined,
  serverNames: ServerNameRules | undefined,
): Service => ({
  namespace: routeNamespace,
  name: route.name,
  // The same for all: no two routes claim one address, and where one stands among the
  // others is nothing that it could change by.
  createdAt: 1,
  clusterIPs: [],
  listens: route.listens,
  externalIPs: [],
  loadBalancerIPs: [],
  ports: [
    { name: '', protocol: route.protocol, port: route.listens[0].port, nodePort: 0 },
  ],
  affinityMs: route.affinityMs,
  ...trafficOf({ ...route, clients, serverNames }, route.protocol),
  internalTrafficPolicy: 'Cluster',
  externalTrafficPolicy: 'Cluster',
  sourceRanges: undefined,
  healthCheckNodePort: 0,
})

/**
 * One slice for each port of a backend, as a slice has one port number for all its
 * endpoints. Its family is that of the first address, for that is where its Service looks
 * for it; the endpoints themselves may be of the other.
 */
const routeSlices = (
  route: Route,
  placesOf: PlacesOf,
  judge: (place: Place) => Verdict,
): EndpointSlice[] => {
  const found = route.backends.map(backend => ({
    backend,
    places: ownPlaces(route, backend, placesOf),
  }))
  const ranks = new Set(
    found.flatMap(({ backend, places }) => places.map(place => rankOf(backend, place))),
  )
  const tiers = [...ranks].toSorted((one, other) => one - other)
  return found.flatMap(({ backend, places }, i) => {
    const ports =
      backend.srv === true ? new Set(places.map(({ port }) => port)) : [backend.port]
    return Array.from(ports, port => {
      const name = backend.srv === true ? `${i}-${port}` : `${i}`
      const endpoints = places
        .filter(place => place.port === port)
        .map(place => {
          const tier = tiers.indexOf(rankOf(backend, place))
          const endpoint = endpointAt(weighed(place, backend), tier)
          return judged(endpoint, judge(place))
        })
      return routeSlice(route, name, port, endpoints)
    })
  })
}

/** Listed for the relay alone: connections there are reset. */
const goneSlices = (route: Route, gone: readonly Place[]): EndpointSlice[] =>
  Array.from(new Set(gone.map(({ port }) => port)), port => {
    const there = gone.filter(place => place.port === port)
    const endpoints = there.map(({ address }) =>
      judged(readyEndpoint(address), { isDown: true, cut: 'down' }),
    )
    return routeSlice(route, `gone-${port}`, port, endpoints)
  })

const routeSlice = (
  route: Route,
  name: string,
  port: number,
  endpoints: readonly EndpointSpec[],
): EndpointSlice => ({
  namespace: routeNamespace,
  // No name of a route has a dot: those of two routes can't be the same.
  name: `${route.name}.${name}`,
  serviceName: route.name,
  family: familyOf(route.listens[0].address) ?? 'IPv4',
  endpoints,
  ports: [{ name: '', protocol: route.protocol, port }],
  lastChangeTriggerTime: 0,
})

/** All that a name gives comes before what the next tier of the route has. */
export const rankOf = (backend: RouteBackend, place: Place): number =>
  backend.tier * mostPlaces + place.tier

/** Of records with weights of their own it is a multiple. */
export const weighed = (place: Place, { weight = 1 }: RouteBackend): Place => ({
  ...place,
  weight: place.weight * weight,
})

const endpointAt = ({ address, weight }: Place, tier: number): EndpointSpec => ({
  ...readyEndpoint(address),
  ...(tier !== 0 && { tier }),
  ...(weight !== 1 && { weight }),
})

/** Where connections go by an object that was made of a route. */
export const servedPlaces = ({ changes }: SourceObject): readonly Place[] =>
  changes.flatMap(({ kind, object }) =>
    kind === 'EndpointSlice' && object !== undefined
      ? object.endpoints
          .filter(({ ready }) => ready)
          .map(({ address }) => placeAt(address, object.ports[0]?.port ?? 0))
      : [],
  )

/** Where a backend's connections may go, without the route itself. */
export const ownPlaces = (
  route: Route,
  backend: RouteBackend,
  placesOf: PlacesOf,
): readonly Place[] => placesOf(backend).filter(place => !isOwn(route, place))

/** The same for all its backends. */
export const placesOfRoute = (route: Route, placesOf: PlacesOf): readonly Place[] =>
  route.backends.flatMap(backend => ownPlaces(route, backend, placesOf))

/** The places of a backend that are the route itself. */
export const loopsOf = (
  route: Route,
  backend: RouteBackend,
  placesOf: PlacesOf,
): readonly Place[] => placesOf(backend).filter(place => isOwn(route, place))

const isOwn = ({ listens }: Route, { address, port }: Place): boolean =>
  isLoop(listens, address, port)
