import { joinHostPort } from '../../util/ip.ts'
import type { Place } from './place.ts'
import type { Route } from './route.ts'

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

const keyOf = ({ address, port }: Place): string => joinHostPort(address, port)
