import type { Problem } from '../../model/snapshot.ts'
import { systemClock, type Clock } from '../../util/clock.ts'
import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { changesBetween, type Applied } from '../diff.ts'
import type { Source, SourceSink, SourceStatus } from '../source.ts'
import { HostWatch, hostWatchTimes, type HostWatchTimes } from './host-watch.ts'
import { resolveHost, type Resolve } from './resolve-host.ts'
import { clashText } from './decode-route.ts'
import { loopsOf, routeObject } from './route-objects.ts'
import type { Route } from './route.ts'

export interface RouteSourceOptions {
  readonly routes: readonly Route[]
  readonly resolve?: Resolve
  readonly clock?: Clock
  /** Called when a host name can't be resolved, once for each error message in a row. */
  readonly onError?: (error: Error) => void
  readonly times?: HostWatchTimes
}

/**
 * Services from a sidecar's routes. Host names are resolved again when their TTL is
 * over; what can't be resolved keeps its last addresses and is tried again with growing
 * pauses. `start` waits for the first attempt at every name and never rejects. Throws
 * when two routes listen on the same address, or have the same name.
 */
export const routeSource = (options: RouteSourceOptions): Source => {
  const clash = clashText(options.routes)
  if (clash !== '') throw new Error(clash)
  return new RouteSource(options)
}

export class RouteSource implements Source {
  readonly #watches = new Map<string, HostWatch>()
  readonly #watchOf: (host: string) => HostWatch
  readonly #onError: (error: Error) => void
  #routes: readonly Route[]
  #applied: Applied = new Map()
  #sink: SourceSink | undefined
  #synced = false
  #lastGoodAt: number | undefined
  #closed = false

  constructor({ routes, resolve, clock, onError, times }: RouteSourceOptions) {
    this.#routes = routes
    this.#onError = onError ?? (() => {})
    const events = {
      resolved: () => this.#update(),
      failed: (error: Error) => {
        this.#onError(error)
        this.#update()
      },
    }
    this.#watchOf = host =>
      new HostWatch(
        host,
        resolve ?? resolveHost,
        clock ?? systemClock,
        events,
        times ?? hostWatchTimes,
      )
  }

  async start(sink: SourceSink): Promise<void> {
    this.#sink = sink
    await this.#watch(this.#routes)
    if (this.#closed) return
    this.#synced = true
    this.#update()
    sink.synced()
  }

  /**
   * Takes these routes in place of those it has, once each name that is new has been tried:
   * what stays the same is never without endpoints. Not before `start` has resolved.
   */
  async replace(routes: readonly Route[]): Promise<void> {
    await this.#watch(routes)
    if (this.#closed) return
    this.#routes = routes
    const wanted = new Set(hostNames(routes))
    for (const [host, watch] of this.#watches) {
      if (wanted.has(host)) continue
      watch.close()
      this.#watches.delete(host)
    }
    this.#update()
  }

  /** Resolves when there was an attempt at each name that was not watched yet. */
  async #watch(routes: readonly Route[]): Promise<void> {
    const attempts = hostNames(routes).flatMap(host => {
      if (this.#closed || this.#watches.has(host)) return []
      const watch = this.#watchOf(host)
      this.#watches.set(host, watch)
      return new Promise<void>(attempted => {
        watch.run(attempted).catch(this.#onError).finally(attempted)
      })
    })
    await Promise.all(attempts)
  }

  reload(): void {
    for (const watch of this.#watches.values()) watch.again()
  }

  status(): SourceStatus {
    return {
      name: 'routes',
      synced: this.#synced,
      lastGoodAt: this.#lastGoodAt,
      error: this.#failing()
        .map(({ error }) => error)
        .join('; '),
    }
  }

  close(): Promise<void> {
    this.#closed = true
    for (const watch of this.#watches.values()) watch.close()
    return Promise.resolve()
  }

  #failing(): HostWatch[] {
    return [...this.#watches.values()].filter(({ error }) => error !== '')
  }

  readonly #addressesOf = (host: string): readonly string[] =>
    this.#watches.get(host)?.addresses ?? [host]

  /** Hands on what is new. Before the first attempts have all ended nothing is. */
  #update(): void {
    if (this.#closed || !this.#synced || this.#sink === undefined) return
    if (this.#failing().length === 0) this.#lastGoodAt = Date.now()
    const wanted = this.#wanted()
    const changes = changesBetween(this.#applied, wanted)
    this.#applied = wanted
    if (changes.length > 0) this.#sink.apply(changes)
    this.#sink.problems(this.#problems())
  }

  #wanted(): Applied {
    const objects = this.#routes.map(route => routeObject(route, this.#addressesOf))
    return new Map(objects.map(object => [object.key, object]))
  }

  #problems(): Problem[] {
    return this.#routes.flatMap(route =>
      route.backends.flatMap((backend): Problem[] => {
        const object = `route "${route.text}"`
        const field = `endpoint "${joinHostPort(backend.host, backend.port)}"`
        const failure = this.#watches.get(backend.host)?.error ?? ''
        const loops = loopsOf(route, backend, this.#addressesOf)
        return [
          ...(failure === '' ? [] : [{ object, field, message: failure }]),
          ...loops.map(address => ({
            object,
            field,
            message: `resolves to ${address}, the route itself; give another port`,
          })),
        ]
      }),
    )
  }
}

/** Each once. */
const hostNames = (routes: readonly Route[]): string[] => [
  ...new Set(
    routes
      .flatMap(({ backends }) => backends.map(({ host }) => host))
      .filter(host => canonicalIp(host) === undefined),
  ),
]
