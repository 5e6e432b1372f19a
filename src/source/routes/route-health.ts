import {
  type CheckedGroup,
  GroupHealth,
  type GroupHealthOptions,
} from '../../health/group-health.ts'
import type { Health } from '../../health/health-checker.ts'
import { ownPlaces, type PlacesOf } from './route-objects.ts'
import type { Place } from './place.ts'
import type { Route } from './route.ts'

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
    this.#health.watch(routes.flatMap(route => this.#groupOf(route) ?? []))
  }

  downOf(route: Route): (place: Place) => boolean {
    const group = this.#groupOf(route)
    return group === undefined ? () => false : this.#health.downOf(group)
  }

  /** What checks say of an endpoint (`ip:port`); undefined when it is not checked. */
  of(route: string, endpoint: string): Health | undefined {
    return this.#health.healthOf(route, endpoint)
  }

  close(): Promise<void> {
    return this.#health.close()
  }

  #groupOf(route: Route): CheckedGroup | undefined {
    const { name, check: option } = route
    if (option === undefined) return undefined
    const endpoints = route.backends.flatMap(backend =>
      ownPlaces(route, backend, this.#placesOf).map(({ address, port }) => ({
        address,
        port,
        host: backend.host === address ? '' : backend.host,
      })),
    )
    return { name, option, endpoints }
  }
}
