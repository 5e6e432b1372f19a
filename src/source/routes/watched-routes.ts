import { isDeepStrictEqual } from 'node:util'
import type { Problem } from '../../model/snapshot.ts'
import { systemClock } from '../../util/clock.ts'
import { firstFew, printable } from '../../util/printable.ts'
import { messageOf } from '../../util/usher-error.ts'
import { Poller, steady } from '../../util/watched-file.ts'
import type { Source, SourceSink, SourceStatus } from '../source.ts'
import { faultText, placeOf, readRoutes, readRoutesText } from './read-routes.ts'
import type { ListFiles } from './list-files.ts'
import { RouteSource, type RouteSourceOptions } from './route-source.ts'
import type { Route } from './route.ts'
import type { FileFault } from './routes-yaml.ts'

export interface WatchedRoutesOptions extends Omit<RouteSourceOptions, 'routes'> {
  readonly lists: ListFiles
  readonly path: string
  /** Routes of flags, which stay. */
  readonly fixed: readonly Route[]
  /** The file as it was read at the start, and the routes in it. */
  readonly text: string
  readonly routes: readonly Route[]
  /** How often the file is looked at; default 2000 ms. */
  readonly pollMs?: number
  /** The file says something else, which is now in force. */
  readonly onTaken?: (routes: readonly Route[]) => void
  /** It can't be used; called once for each new reason. */
  readonly onUnusable?: (reason: string) => void
}

/** What is found at the path: a text, or why there is none. */
type Found = { readonly text: string } | { readonly fault: string }

/**
 * Services from a file of routes, beside those of flags. The file is looked at again and again,
 * which finds every way in which one may be replaced; what counts is what it says. It is taken as
 * a whole or not at all: while it can't be used its last good routes stand.
 */
export const watchedRoutes = (options: WatchedRoutesOptions): Source =>
  new WatchedRoutes(options)

class WatchedRoutes extends RouteSource {
  readonly #options: WatchedRoutesOptions
  #found: Found
  #routes: readonly Route[]
  #faults: readonly FileFault[] = []
  #goodAt = Date.now()
  #sink: SourceSink | undefined
  #problems: readonly Problem[] = []
  readonly #poller: Poller

  constructor(options: WatchedRoutesOptions) {
    super({ ...options, routes: [...options.fixed, ...options.routes] })
    this.#options = options
    this.#found = { text: options.text }
    this.#routes = options.routes
    const look = () =>
      this.#look().catch((error: unknown) =>
        options.onError?.(new Error(messageOf(error))),
      )
    this.#poller = new Poller(this.#clock, options.pollMs ?? 2000, look)
  }

  override async start(sink: SourceSink): Promise<void> {
    this.#sink = sink
    await super.start({
      apply: changes => sink.apply(changes),
      synced: () => sink.synced(),
      problems: problems => {
        this.#problems = problems
        this.#notify()
      },
    })
    this.#poller.start()
  }

  override reload(): void {
    super.reload()
    void this.#poller.now()
  }

  reading(): Promise<void> | undefined {
    return this.#poller.looking
  }

  override status(): SourceStatus {
    const inner = super.status()
    const faults = this.#faults.map(faultText)
    const { lastGoodAt } = inner
    return {
      ...inner,
      name: `routes ${this.#name()}`,
      lastGoodAt: lastGoodAt && Math.min(lastGoodAt, this.#goodAt),
      ...(faults.length > 0 && {
        error: [`${this.#name()}: ${firstFew(faults)}`, inner.error]
          .filter(part => part !== '')
          .join('; '),
      }),
    }
  }

  override async close(): Promise<void> {
    this.#poller.close()
    await super.close()
  }

  get #clock() {
    return this.#options.clock ?? systemClock
  }

  #name(): string {
    return printable(this.#options.path, 300)
  }

  #notify(): void {
    const ofFile = this.#faults.map(fault => ({
      object: this.#name(),
      field: placeOf(fault),
      message: fault.message,
    }))
    this.#sink?.problems([...ofFile, ...this.#problems])
  }

  async #look(): Promise<void> {
    const read = () => find(this.#options.path)
    const found = await steady(this.#clock, this.#found, read)
    if (!this.#poller.isOn) return
    // One that was refused is read again: a file that a route names may be there now.
    if (isDeepStrictEqual(found, this.#found) && this.#faults.length === 0) {
      this.#goodAt = Date.now()
      return
    }
    const { routes, faults } = await this.#read(found)
    const ofLists = faults.length > 0 ? [] : await this.#loadLists(routes)
    const all = [...faults, ...ofLists]
    if (all.length > 0) this.#refuse(all)
    else await this.#take(routes)
    this.#found = found
  }

  #read(found: Found): ReturnType<typeof readRoutes> {
    if ('text' in found) return readRoutes(found.text, this.#options.fixed)
    const faults = [{ line: 0, field: '', message: found.fault }]
    return Promise.resolve({ routes: [], faults })
  }

  async #loadLists(routes: readonly Route[]): Promise<readonly FileFault[]> {
    const faults = await this.#options.lists.load(routes)
    return faults.map(({ file, message }) => ({ line: 0, field: file, message }))
  }

  #refuse(faults: readonly FileFault[]): void {
    if (isDeepStrictEqual(faults, this.#faults)) return
    this.#faults = faults
    this.#notify()
    this.#options.onUnusable?.(firstFew(faults.map(faultText)))
  }

  async #take(routes: readonly Route[]): Promise<void> {
    const isNew = !isDeepStrictEqual(routes, this.#routes)
    if (isNew) await this.replace([...this.#options.fixed, ...routes])
    if (!this.#poller.isOn) return
    this.#routes = routes
    this.#faults = []
    this.#goodAt = Date.now()
    this.#notify()
    if (isNew) this.#options.onTaken?.(routes)
  }
}

const find = async (path: string): Promise<Found> => {
  try {
    return { text: await readRoutesText(path) }
  } catch (error) {
    return { fault: messageOf(error) }
  }
}
