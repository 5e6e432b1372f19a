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
import { mostPlaces, type Place } from './place.ts'
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

interface RouteState {
  readonly judge?: (place: Place) => Verdict
  /** Places whose connections are to be reset. */
  readonly gone?: readonly Place[]
  /** Endpoints of before that serve until one of those in their place has been asked. */
  readonly held?: readonly ServedEndpoint[]
  /** What the route's lists come to. */
  readonly clients?: ClientLists | undefined
}

/** A Service and a slice for each backend. */
export const routeObject = (
  route: Route,
  placesOf: PlacesOf,
  { judge = () => ({ isDown: false }), gone = [], held = [], clients }: RouteState = {},
): SourceObject => {
  const namespace = routeNamespace
  const { name } = route
  const service = routeService(route, clients, namesOf(route, placesOf, held))
  const all = [
    ...routeSlices(route, placesOf, judge),
    ...slicesByPort(route, 'held', held),
    ...slicesByPort(route, 'gone', gone.map(goneEndpoint)),
  ]
  const slices = all.map((slice): Change => ({
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

/** Whom its endpoints are for, by their keys in the relay. */
const namesOf = (
  route: Route,
  placesOf: PlacesOf,
  held: readonly ServedEndpoint[],
): ServerNameRules | undefined => {
  const { pools, others } = route
  const heldOf = (pool: string): readonly string[] =>
    held.flatMap(one => (one.pools.has(pool) ? [keyOf(one)] : []))
  const keysOf = (backends: readonly RouteBackend[]): readonly string[] =>
    backends.flatMap(backend => ownPlaces(route, backend, placesOf).map(keyOf))
  return (
    pools && {
      pools: pools.map(({ names, alpn, backends }) => ({
        names,
        alpn,
        endpoints: [...keysOf(backends), ...heldOf(poolKey(names, alpn))],
      })),
      others: others && [...keysOf(others), ...heldOf('')],
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
  clusterIPs: [route.listen.address],
  isRoute: true,
  externalIPs: [],
  loadBalancerIPs: [],
  ports: [{ name: '', protocol: route.protocol, port: route.listen.port, nodePort: 0 }],
  affinityMs: route.affinityMs,
  ...trafficOf({ ...route, clients, serverNames }, route.protocol),
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
const goneEndpoint = ({ address, port }: Place) => ({
  port,
  spec: judged(readyEndpoint(address), { isDown: true, cut: 'down' }),
})

const slicesByPort = (
  route: Route,
  what: string,
  all: readonly Pick<ServedEndpoint, 'port' | 'spec'>[],
): EndpointSlice[] =>
  Array.from(new Set(all.map(({ port }) => port)), port => {
    const there = all.filter(one => one.port === port)
    const endpoints = there.map(({ spec }) => spec)
    return routeSlice(route, `${what}-${port}`, port, endpoints)
  })

/** One that gets connections. */
export interface ServedEndpoint extends Pick<Place, 'address' | 'port'> {
  readonly spec: EndpointSpec
  /** Those that it was in, as `poolKey` has them; '' is for all other clients. */
  readonly pools: ReadonlySet<string>
}

/** What an object has that gets connections. */
export const servedEndpoints = ({ changes }: SourceObject): readonly ServedEndpoint[] => {
  const objects = changes.map(({ object }) => object)
  const names = objects.find(isService)?.serverNames
  const poolsOf = (key: string): ReadonlySet<string> =>
    new Set([
      ...(names?.others?.includes(key) ? [''] : []),
      ...(names?.pools ?? [])
        .filter(({ endpoints }) => endpoints.includes(key))
        .map(pool => poolKey(pool.names, pool.alpn)),
    ])
  return objects.filter(isSlice).flatMap(({ endpoints, ports: [{ port } = noPort] }) =>
    endpoints
      .filter(({ ready }) => ready)
      .map(spec => {
        const { address } = spec
        return { address, port, spec, pools: poolsOf(keyOf({ address, port })) }
      }),
  )
}

const noPort = { port: 0 }

type Known = Change['object']

const isSlice = (object: Known): object is EndpointSlice =>
  object !== undefined && 'endpoints' in object

const isService = (object: Known): object is Service =>
  object !== undefined && 'clusterIPs' in object

const poolKey = (names: readonly string[] | undefined, alpn: typeof names): string =>
  JSON.stringify([names, alpn])

export const keyOf = ({ address, port }: Pick<Place, 'address' | 'port'>): string =>
  joinHostPort(address, port)

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
  family: familyOf(route.listen.address) ?? 'IPv4',
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

const isOwn = ({ listen }: Route, { address, port }: Place): boolean =>
  isLoop(listen, address, port)
