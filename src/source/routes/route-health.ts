import {
  type CheckedGroup,
  GroupHealth,
  type GroupHealthOptions,
} from '../../health/group-health.ts'
import type { Health } from '../../health/health-checker.ts'
import { joinHostPort } from '../../util/ip.ts'
import { ownPlaces, type PlacesOf } from './route-objects.ts'
import type { Place } from './place.ts'
import type { Route, RouteBackend } from './route.ts'

/** Which endpoints of routes are down, by the checks that the routes ask for: groups are routes. */
export class RouteHealth {
  readonly #health: GroupHealth
  readonly #placesOf: PlacesOf

  constructor(placesOf: PlacesOf, options: GroupHealthOptions) {
    this.#placesOf = placesOf
    this.#health = new GroupHealth(options)
  }

  /** Checks all endpoints that these routes have now, and no others. */
  watch(routes: readonly Route[]): void {
    this.#health.watch(routes.flatMap(route => this.#groupsOf(route)))
  }

  /** One that is in several pools is down where all of these can do without it. */
  downOf(route: Route): (place: Place) => boolean {
    const groups = this.#groupsOf(route).map(group => ({
      keys: new Set(group.endpoints.map(keyOf)),
      isDown: this.#health.downOf(group),
    }))
    return place => {
      const mine = groups.filter(({ keys }) => keys.has(keyOf(place)))
      return mine.length > 0 && mine.every(({ isDown }) => isDown(place))
    }
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
      endpoints: backends.flatMap(backend => this.#endpointsOf(route, backend)),
    }))
  }

  #endpointsOf(route: Route, backend: RouteBackend): CheckedGroup['endpoints'] {
    return ownPlaces(route, backend, this.#placesOf).map(({ address, port }) => ({
      address,
      port,
      host: backend.host === address ? '' : backend.host,
      proxyProtocol: route.proxyProtocol,
    }))
  }
}

const keyOf = ({ address, port }: Pick<Place, 'address' | 'port'>): string =>
  joinHostPort(address, port)
