import { isDeepStrictEqual } from 'node:util'
import {
  type CheckedGroup,
  GroupHealth,
  type GroupTurn,
} from '../../health/group-health.ts'
import type { Health } from '../../health/health-checker.ts'
import type { Verdict } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { systemClock, type Clock, type Timer, within } from '../../util/clock.ts'
import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { firstFew } from '../../util/printable.ts'
import { isUnix } from '../../util/unix-address.ts'
import { SyncRunner } from '../../util/sync-runner.ts'
import { changesBetween, type Applied } from '../diff.ts'
import type { Source, SourceSink, SourceStatus } from '../source.ts'
import { HostWatch, hostWatchTimes, type HostWatchTimes } from './host-watch.ts'
import {
  hostLookup,
  placeAt,
  type Lookup,
  type Place,
  type Resolve,
  type ResolveSrv,
} from './place.ts'
import { resolveHost, resolveSrv } from './resolve-host.ts'
import { clashText } from './decode-route.ts'
import { ListFiles } from './list-files.ts'
import {
  loopsOf,
  ownPlaces,
  placesOfRoute,
  rankOf,
  routeNameOf,
  routeObject,
  servedPlaces,
  servicePortOf,
  weighed,
  withEndpointsOf,
} from './route-objects.ts'
import { backendText, type Route, type RouteBackend } from './route.ts'
import { srvLookup } from './srv-lookup.ts'

export interface RouteSourceOptions {
  readonly routes: readonly Route[]
  readonly resolve?: Resolve
  readonly resolveSrv?: ResolveSrv
  readonly clock?: Clock
  /** Called when a host name can't be resolved, once for each error message in a row. */
  readonly onError?: (error: Error) => void
  readonly times?: HostWatchTimes
  /** With the files of the routes loaded. */
  readonly lists?: ListFiles
  /**
   * Called when an endpoint has turned, by its route's check, or is down by the first one; the
   * group is the route.
   */
  readonly onTurn?: (turn: GroupTurn) => void
}

/** Of a thousand endpoints that turn at once each would have all of them written anew. */
const turnsEveryMs = 100

/** Other routes don't wait longer for a name that is new. */
const patienceMs = 1000

/**
 * Services from a sidecar's routes. Host names are resolved again when their TTL is
 * over; what can't be resolved keeps its last addresses and is tried again with growing
 * pauses. `start` waits a little for the first attempt at every name and never rejects. Throws
 * when two routes listen on the same address, or have the same name.
 */
export const routeSource = (options: RouteSourceOptions): RouteSource => {
  const clash = clashText(options.routes)
  if (clash !== '') throw new Error(clash)
  return new RouteSource(options)
}

export class RouteSource implements Source {
  readonly #watches = new Map<string, HostWatch>()
  readonly #watchOf: (backend: RouteBackend) => HostWatch
  readonly #onError: (error: Error) => void
  /** By the checks that the routes ask for. */
  readonly #health: GroupHealth
  readonly #turns: SyncRunner
  readonly #gone = new GonePlaces()
  /** Routes, by name, that go where they went until one of their new endpoints has been asked. */
  #waiting: ReadonlySet<string> = new Set()
  readonly #lists: ListFiles
  readonly #clock: Clock
  /** When a place that has gone is to be forgotten. */
  #goneTimer: Timer | undefined
  /** As of what was handed on: an answer that was not is still awaited. */
  #awaitsChecks = false
  /** What is wanted, and what is in force of it. */
  #given: readonly Route[]
  #routes: readonly Route[] = []
  /** What is about to be wanted. */
  #coming: readonly Route[] = []
  #applied: Applied = new Map()
  #sink: SourceSink | undefined
  #synced = false
  /** While all is known it is, at any time: what was resolved is so for its TTL. */
  #isGood = false
  #lastGoodAt: number | undefined
  #closed = false

  constructor(options: RouteSourceOptions) {
    const { routes, clock = systemClock, times = hostWatchTimes } = options
    this.#given = routes
    this.#clock = clock
    this.#lists = options.lists ?? new ListFiles({ clock })
    this.#onError = options.onError ?? (() => {})
    const events = {
      resolved: () => this.#update(),
      failed: (error: Error) => {
        this.#onError(error)
        this.#update()
      },
    }
    this.#health = new GroupHealth({
      clock,
      turned: turn => options.onTurn?.(turn),
      changed: () => this.#turns.request(),
    })
    this.#turns = new SyncRunner({
      clock,
      sync: async () => this.#update(),
      failed: error => this.#onError(error as Error),
      mostWaitMs: turnsEveryMs,
      leastWaitMs: turnsEveryMs,
      maxMs: Number.POSITIVE_INFINITY,
    })
    this.#watchOf = backend =>
      new HostWatch({
        name: watchName(backend),
        lookup: lookupOf(backend, options, clock),
        clock,
        events,
        times,
      })
  }

  async start(sink: SourceSink): Promise<void> {
    this.#sink = sink
    await this.#watch(this.#given)
    if (this.#closed) return
    this.#synced = true
    this.#lists.watch(() => this.#update())
    this.#update()
    sink.synced()
  }

  /**
   * Takes these routes in place of those it has, once each name that is new has been tried, or a
   * second later: what was there and has got such a name goes where it went until it is tried. Not
   * before `start` has resolved.
   */
  async replace(routes: readonly Route[]): Promise<void> {
    this.#coming = routes
    await this.#watch(routes)
    if (this.#closed) return
    this.#coming = []
    this.#given = routes
    this.#lists.keep(routes)
    this.#update()
  }

  /** Resolves when there was an attempt at each name that was not watched yet, or that takes long. */
  async #watch(routes: readonly Route[]): Promise<void> {
    const attempts = [...namesOf(routes)].flatMap(([name, backend]) => {
      if (this.#closed || this.#watches.has(name)) return []
      const watch = this.#watchOf(backend)
      this.#watches.set(name, watch)
      return new Promise<HostWatch>(attempted => {
        watch
          .run(() => attempted(watch))
          .catch(this.#onError)
          .finally(() => attempted(watch))
      })
    })
    if (attempts.length === 0) return
    await within(this.#clock, patienceMs, Promise.all(attempts))
    for (const name of namesOf(routes).keys()) this.#watches.get(name)?.late()
  }

  /** Takes up what is wanted as far as it can be, and forgets names that nothing needs. */
  #settle(): void {
    this.#routes = this.#given.map(route => this.#inForce(route))
    const needed = namesOf([...this.#given, ...this.#routes, ...this.#coming])
    for (const [name, watch] of this.#watches) {
      if (needed.has(name)) continue
      watch.close()
      this.#watches.delete(name)
    }
  }

  /**
   * With the endpoints that a route of one of its addresses had, until each of its names has been tried and
   * there is one to go by: what can't be found out takes nothing away.
   */
  #inForce(route: Route): Route {
    const stateOf = (one: RouteBackend) =>
      this.#watches.get(watchName(one))?.state ?? 'known'
    const states = new Set(route.backends.map(stateOf))
    if (!states.has('new') && states.has('known')) return route
    const before = this.#routes.find(
      ({ protocol, listens }) =>
        protocol === route.protocol && listens.some(one => isAny(route.listens, one)),
    )
    if (before === undefined) return route
    // With how they are asked and spoken to: the new ones may be other servers.
    const { backends, pools, others, check, proxyProtocol } = before
    return { ...route, backends, pools, others, check, proxyProtocol }
  }

  reload(): void {
    this.#lists.poll().catch(this.#onError)
    for (const watch of this.#watches.values()) watch.again()
  }

  /** Its names are resolved now, each at most once a second. */
  allFailed(servicePort: string): void {
    const route = this.#routes.find(one => servicePortOf(one) === servicePort)
    for (const backend of route?.backends ?? [])
      this.#watches.get(watchName(backend))?.soon()
  }

  healthOf(servicePort: string, endpoint: string): Health | undefined {
    return this.#health.healthOf(routeNameOf(servicePort), endpoint)
  }

  awaitsChecks(): boolean {
    return this.#awaitsChecks
  }

  status(): SourceStatus {
    return {
      name: 'routes',
      synced: this.#synced,
      lastGoodAt: this.#isGood ? Date.now() : this.#lastGoodAt,
      error: this.#error(),
    }
  }

  close(): Promise<void> {
    this.#closed = true
    for (const watch of this.#watches.values()) watch.close()
    this.#lists.close()
    this.#clock.clearTimeout(this.#goneTimer)
    this.#turns.close()
    return this.#health.close()
  }

  #error(): string {
    return firstFew([
      ...Array.from(this.#watches.values(), ({ error }) => error).filter(Boolean),
      ...this.#lists.faults.map(({ file, message }) => `${file}: ${message}`),
    ])
  }

  readonly #placesOf = (backend: RouteBackend): readonly Place[] => {
    const { host, port, srv } = backend
    const places = this.#watches.get(watchName(backend))?.places
    if (srv === true) return places ?? []
    return places?.map(({ address }) => placeAt(address, port)) ?? [placeAt(host, port)]
  }

  /** Hands on what is new. Before the first attempts have all ended nothing is. */
  #update(): void {
    if (this.#closed || !this.#synced || this.#sink === undefined) return
    this.#settle()
    const wasGood = this.#isGood
    this.#isGood = this.#error() === ''
    if (this.#isGood || wasGood) this.#lastGoodAt = Date.now()
    const served = new Map(
      Array.from(this.#applied, ([name, object]) => [name, servedPlaces(object)]),
    )
    this.#watchHealth(served)
    this.#noteGone(served)
    const wanted = this.#wanted()
    const changes = changesBetween(this.#applied, wanted)
    this.#applied = wanted
    if (changes.length > 0) this.#sink.apply(changes)
    this.#sink.problems(this.#problems())
  }

  #watchHealth(served: ReadonlyMap<string, readonly Place[]>): void {
    const used = Array.from(served, ([name, places]) =>
      places.map(place => `${name} ${keyOf(place)}`),
    )
    const groups = this.#routes.flatMap(route => this.#groupsOf(route))
    this.#health.watch(groups, new Set(used.flat()))
    const awaits = (route: Route): boolean =>
      this.#groupsOf(route).some(group => this.#health.awaits(group))
    this.#awaitsChecks = this.#routes.some(awaits)
    const waiting = this.#routes.filter(route => {
      const own = new Set(placesOfRoute(route, this.#placesOf).map(keyOf))
      const isAnyLeft = served.get(route.name)?.some(place => !own.has(keyOf(place)))
      // Clients of it, or of one of its pools, would wait for endpoints that have yet to be asked.
      return isAnyLeft === true && awaits(route)
    })
    this.#waiting = new Set(waiting.map(({ name }) => name))
  }

  /** Endpoints stand in for those of their own pool. */
  #groupsOf(route: Route): readonly CheckedGroup[] {
    const { name, check: option, pools, others, proxyProtocol } = route
    if (option === undefined) return []
    const sets =
      pools === undefined
        ? [route.backends]
        : [others ?? [], ...pools.map(({ backends }) => backends)]
    const endpointsOf = (backend: RouteBackend): CheckedGroup['endpoints'] =>
      ownPlaces(route, backend, this.#placesOf).map(place => ({
        address: place.address,
        port: place.port,
        host: backend.host === place.address ? '' : backend.host,
        proxyProtocol,
        tier: rankOf(backend, place),
        weight: weighed(place, backend).weight,
      }))
    return sets.map(backends => ({
      name,
      option,
      effects: route,
      endpoints: backends.flatMap(endpointsOf),
    }))
  }

  /** An endpoint in several pools is down, or cut, where all of these can do without it. */
  #judge(route: Route): (place: Place) => Verdict {
    const groups = this.#groupsOf(route).map(group => ({
      keys: new Set(group.endpoints.map(keyOf)),
      verdictOf: this.#health.judge(group),
    }))
    return place => {
      const mine = groups
        .filter(({ keys }) => keys.has(keyOf(place)))
        .map(({ verdictOf }) => verdictOf(place))
      const [first] = mine
      const isDown = first !== undefined && mine.every(one => one.isDown)
      return { isDown, cut: mine.every(({ cut }) => cut) ? first?.cut : undefined }
    }
  }

  #noteGone(served: ReadonlyMap<string, readonly Place[]>): void {
    const now = this.#clock.now()
    const placesOf = (route: Route) =>
      (this.#waiting.has(route.name) ? served.get(route.name) : undefined) ??
      placesOfRoute(route, this.#placesOf)
    this.#gone.update(this.#routes, placesOf, now)
    this.#clock.clearTimeout(this.#goneTimer)
    const { until } = this.#gone
    if (until === undefined) return
    this.#goneTimer = this.#clock.setTimeout(() => this.#update(), until - now)
  }

  #wanted(): Applied {
    const objects = this.#routes.map(route => {
      const before = this.#applied.get(route.name)
      const gone = this.#gone.of(route)
      const judge = this.#judge(route)
      const clients = this.#lists.clientsOf(route)
      const now = routeObject(route, this.#placesOf, judge, gone, clients)
      return before !== undefined && this.#waiting.has(route.name)
        ? withEndpointsOf(before, now)
        : now
    })
    return new Map(objects.map(object => [object.key, object]))
  }

  #problems(): Problem[] {
    const ofLists = this.#lists.faults.map(({ file, message }) => ({
      object: file,
      field: '',
      message: `${message}; keeping the old one`,
    }))
    const ofRoutes = this.#given.flatMap((route, i) =>
      route.backends.flatMap((backend): Problem[] => {
        const object = `route "${route.text}"`
        const field = `endpoint "${backendText(backend)}"`
        const failure = this.#watches.get(watchName(backend))?.error ?? ''
        const isOld = this.#routes[i]?.backends !== route.backends
        const stands = isOld ? '; still using the previous endpoints' : ''
        const loops = loopsOf(route, backend, this.#placesOf)
        return [
          ...(failure === '' ? [] : [{ object, field, message: `${failure}${stands}` }]),
          ...loops.map(({ address }) => ({
            object,
            field,
            message: `resolves to ${address}, the route itself; give another port`,
          })),
        ]
      }),
    )
    const waiting = this.#routes.filter(({ name }) => this.#waiting.has(name))
    const ofWaiting = waiting.flatMap(route => {
      const places = placesOfRoute(route, this.#placesOf)
      const all = places.map(one => this.#health.healthOf(route.name, keyOf(one))?.reason)
      const reason = all.find(Boolean)
      const message = `${reason}; still using the previous endpoints`
      return reason ? [{ object: `route "${route.text}"`, field: 'check', message }] : []
    })
    return [...ofLists, ...ofRoutes, ...ofWaiting]
  }
}

const isAny = (all: Route['listens'], one: Route['listens'][number]): boolean =>
  all.some(other => isDeepStrictEqual(other, one))

const keyOf = ({ address, port }: Pick<Place, 'address' | 'port'>): string =>
  joinHostPort(address, port)

/** The names that have to be resolved, with a backend of each. */
const namesOf = (routes: readonly Route[]): ReadonlyMap<string, RouteBackend> =>
  new Map(
    routes
      .flatMap(({ backends }) => backends)
      .filter(({ host }) => canonicalIp(host) === undefined && !isUnix(host))
      .map(backend => [watchName(backend), backend]),
  )

/** What a backend is watched under: its name, and whether SRV records are meant. */
const watchName = ({ host, srv }: RouteBackend): string =>
  srv === true ? `srv:${host}` : host

const lookupOf = (
  { host, srv }: RouteBackend,
  { resolve = resolveHost, ...options }: RouteSourceOptions,
  clock: Clock,
): Lookup =>
  srv === true
    ? srvLookup(host, options.resolveSrv ?? resolveSrv, resolve, clock)
    : hostLookup(host, resolve)

/**
 * A place that has gone is listed for so long, in milliseconds, that the relay has surely heard of
 * it: several changes may travel as one, and one that fails is tried again.
 */
const listedMs = 30_000

/** Of one route; a server that rotates through thousands of addresses must not fill the memory. */
const mostListed = 1024

interface GonePlace {
  readonly place: Place
  readonly until: number
}

interface Known {
  readonly now: ReadonlyMap<string, Place>
  /** The oldest first. */
  readonly gone: ReadonlyMap<string, GonePlace>
}

const nothing: Known = { now: new Map(), gone: new Map() }

/**
 * Where routes went a moment ago and go no more, of routes that want their connections there to be
 * reset. Told the time.
 */
export class GonePlaces {
  #known: ReadonlyMap<string, Known> = new Map()

  /** Notes where these routes go now; others are forgotten. */
  update(
    routes: readonly Route[],
    placesOf: (route: Route) => readonly Place[],
    now: number,
  ): void {
    this.#known = new Map(
      routes.map(route => {
        const { name } = route
        const places = placesOf(route)
        return [name, next(route, this.#known.get(name) ?? nothing, places, now)]
      }),
    )
  }

  of({ name }: Route): readonly Place[] {
    const gone = this.#known.get(name)?.gone.values() ?? []
    return Array.from(gone, ({ place }) => place)
  }

  /** When the first of them is to be forgotten; undefined when there are none. */
  get until(): number | undefined {
    const oldest = [...this.#known.values()].flatMap(({ gone }) =>
      [...gone.values()].slice(0, 1),
    )
    return oldest.length === 0 ? undefined : Math.min(...oldest.map(({ until }) => until))
  }
}

const next = (
  { onGone }: Route,
  before: Known,
  places: readonly Place[],
  time: number,
): Known => {
  const now = new Map(places.map(place => [keyOf(place), place]))
  if (onGone === 'keep') return { now, gone: new Map() }
  const stillGone = [...before.gone].filter(
    ([key, { until }]) => until > time && !now.has(key),
  )
  const left = [...before.now].filter(([key]) => !now.has(key))
  const gone = [
    ...stillGone,
    ...left.map(([key, place]) => [key, { place, until: time + listedMs }] as const),
  ]
  return { now, gone: new Map(gone.slice(-mostListed)) }
}
