import type { Problem } from '../../model/snapshot.ts'
import { systemClock, type Clock } from '../../util/clock.ts'
import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { changesBetween, type Applied } from '../diff.ts'
import type { Source, SourceSink, SourceStatus } from '../source.ts'
import { HostWatch, hostWatchTimes, type HostWatchTimes } from './host-watch.ts'
import { resolveHost, type Resolve } from './resolve-host.ts'
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
 * when two routes listen on the same address.
 */
export const routeSource = (options: RouteSourceOptions): Source => {
  const seen = new Map<string, Route>()
  for (const route of options.routes) {
    const { address, port } = route.listen
    const listen = `${route.protocol.toLowerCase()}://${joinHostPort(address, port)}`
    const other = seen.get(listen)
    if (other !== undefined)
      throw new Error(
        `route "${route.text}": ${listen} is taken by route "${other.text}"; give each route an address or port of its own`,
      )
    seen.set(listen, route)
  }
  return new RouteSource(options)
}

class RouteSource implements Source {
  readonly #routes: readonly Route[]
  readonly #watches = new Map<string, HostWatch>()
  readonly #onError: (error: Error) => void
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
    for (const { host } of routes.flatMap(({ backends }) => backends))
      if (canonicalIp(host) === undefined && !this.#watches.has(host))
        this.#watches.set(
          host,
          new HostWatch(
            host,
            resolve ?? resolveHost,
            clock ?? systemClock,
            events,
            times ?? hostWatchTimes,
          ),
        )
  }

  async start(sink: SourceSink): Promise<void> {
    this.#sink = sink
    const attempts = [...this.#watches.values()].map(
      watch =>
        new Promise<void>(attempted => {
          watch.run(attempted).catch(this.#onError).finally(attempted)
        }),
    )
    await Promise.all(attempts)
    if (this.#closed) return
    this.#synced = true
    this.#update()
    sink.synced()
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
    const objects = this.#routes.map((route, i) =>
      routeObject(route, i + 1, this.#addressesOf),
    )
    return new Map(objects.map(object => [object.key, object]))
  }

  #problems(): Problem[] {
    return this.#routes.flatMap(route =>
      route.backends.flatMap((backend): Problem[] => {
        const object = `route "${route.text}"`
        const field = `backend "${joinHostPort(backend.host, backend.port)}"`
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
