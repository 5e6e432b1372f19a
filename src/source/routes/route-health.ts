import { type CheckedGroup, GroupHealth } from '../../health/group-health.ts'
import type { Health } from '../../health/health-checker.ts'
import type { Clock } from '../../util/clock.ts'
import { ownPlaces, type PlacesOf } from './route-objects.ts'
import type { Place } from './place.ts'
import type { Route } from './route.ts'

/** An endpoint of a route has turned, or its first check has found it down. */
export interface Turn {
  readonly route: string
  readonly endpoint: string
  /** The name that its address was found by; '' when it was given by address. */
  readonly host: string
  readonly up: boolean
  /** Why it is down; '' when it is up. */
  readonly why: string
}

interface RouteHealthOptions {
  readonly clock: Clock
  readonly turned: (turn: Turn) => void
}

/** Which endpoints of routes are down, by the checks that the routes ask for. */
export class RouteHealth {
  readonly #health: GroupHealth
  readonly #placesOf: PlacesOf

  constructor(placesOf: PlacesOf, { clock, turned }: RouteHealthOptions) {
    this.#placesOf = placesOf
    this.#health = new GroupHealth({
      clock,
      turned: ({ group: route, ...turn }) => turned({ route, ...turn }),
    })
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
