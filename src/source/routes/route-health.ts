import type { Check } from '../../health/check.ts'
import {
  type CheckTarget,
  type Health,
  HealthChecker,
} from '../../health/health-checker.ts'
import type { Clock } from '../../util/clock.ts'
import { joinHostPort } from '../../util/ip.ts'
import { ownPlaces, type PlacesOf } from './route-objects.ts'
import type { Place } from './place.ts'
import type { Route } from './route.ts'

/** An endpoint of a route has turned. */
export interface Turn {
  readonly route: string
  readonly endpoint: string
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
  readonly #checker: HealthChecker
  readonly #placesOf: PlacesOf

  constructor(placesOf: PlacesOf, { clock, turned }: RouteHealthOptions) {
    this.#placesOf = placesOf
    this.#checker = new HealthChecker({
      clock,
      changed: ({ key, address, port }, { up, why }: Health) => {
        const [route = ''] = key.split(' ')
        turned({ route, endpoint: joinHostPort(address, port), up, why })
      },
    })
  }

  /** Checks all endpoints that these routes have now, and no others. */
  watch(routes: readonly Route[]): void {
    this.#checker.set(routes.flatMap(route => this.#targetsOf(route)))
  }

  /**
   * Tells who is down. When all are, none is: one of them may serve all the same. Not so where
   * the check asks for a role, which it would be wrong to take from another.
   */
  downOf(route: Route): (place: Place) => boolean {
    if (route.check === undefined) return () => false
    const keys = this.#placesOfRoute(route).map(place => keyOf(route, place))
    const down = new Set(keys.filter(key => this.#checker.healthOf(key)?.up === false))
    if (down.size === new Set(keys).size && !asksForRole(route.check.check)) {
      return () => false
    }
    return place => down.has(keyOf(route, place))
  }

  close(): Promise<void> {
    return this.#checker.close()
  }

  #placesOfRoute(route: Route): readonly Place[] {
    return route.backends.flatMap(backend => ownPlaces(route, backend, this.#placesOf))
  }

  #targetsOf(route: Route): readonly CheckTarget[] {
    const { check } = route
    if (check === undefined) return []
    const targets = route.backends.flatMap(backend =>
      ownPlaces(route, backend, this.#placesOf).map((place): CheckTarget => ({
        key: keyOf(route, place),
        address: place.address,
        port: place.port,
        host: backend.host === place.address ? '' : backend.host,
        check: check.check,
        rules: check.rules,
      })),
    )
    return [...new Map(targets.map(target => [target.key, target])).values()]
  }
}

const keyOf = ({ name }: Route, { address, port }: Place): string =>
  `${name} ${joinHostPort(address, port)}`

const asksForRole = (check: Check): boolean =>
  check.type === 'http' || (check.type === 'redis' && check.role !== undefined)
