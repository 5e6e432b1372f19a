import {
  type CheckedGroup,
  GroupHealth,
  type GroupHealthOptions,
} from '../../health/group-health.ts'
import type { Health } from '../../health/health-checker.ts'
import type { Verdict } from '../../model/service.ts'
import { joinHostPort } from '../../util/ip.ts'
import { ownPlaces, type PlacesOf, rankOf, weighed } from './route-objects.ts'
import type { Place } from './place.ts'
import type { Route, RouteBackend } from './route.ts'

/** What is said of endpoints of routes, by the checks that the routes ask for: groups are routes. */
export class RouteHealth {
  readonly #health: GroupHealth
  readonly #placesOf: PlacesOf

  constructor(placesOf: PlacesOf, options: GroupHealthOptions) {
    this.#placesOf = placesOf
    this.#health = new GroupHealth(options)
  }

  /** Checks all endpoints that these routes have now, and no others. `used`: as of `GroupHealth`. */
  watch(routes: readonly Route[], used: ReadonlySet<string>): void {
    this.#health.watch(
      routes.flatMap(route => this.#groupsOf(route)),
      used,
    )
  }

  /** One that is in several pools is down, or cut, where all of these can do without it. */
  judge(route: Route): (place: Place) => Verdict {
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

  /** Whether clients of a route, or of one of its pools, wait for endpoints that have yet to be asked. */
  awaits(route: Route): boolean {
    return this.#groupsOf(route).some(group => this.#health.awaits(group))
  }

  /** What checks say of an endpoint (`ip:port`); undefined when it is not checked. */
  of(route: string, endpoint: string): Health | undefined {
    return this.#health.healthOf(route, endpoint)
  }

  close(): Promise<void> {
    return this.#health.close()
  }

  /** Endpoints stand in for those of their own pool. */
  #groupsOf(route: Route): readonly CheckedGroup[] {
    const { name, check: option, pools, others } = route
    if (option === undefined) return []
    const sets =
      pools === undefined
        ? [route.backends]
        : [others ?? [], ...pools.map(({ backends }) => backends)]
    return sets.map(backends => ({
      name,
      option,
      effects: route,
      endpoints: backends.flatMap(backend => this.#endpointsOf(route, backend)),
    }))
  }

  #endpointsOf(route: Route, backend: RouteBackend): CheckedGroup['endpoints'] {
    return ownPlaces(route, backend, this.#placesOf).map(place => ({
      address: place.address,
      port: place.port,
      host: backend.host === place.address ? '' : backend.host,
      proxyProtocol: route.proxyProtocol,
      tier: rankOf(backend, place),
      weight: weighed(place, backend).weight,
    }))
  }
}

const keyOf = ({ address, port }: Pick<Place, 'address' | 'port'>): string =>
  joinHostPort(address, port)
