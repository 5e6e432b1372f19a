import { type Clock, wait } from '../../util/clock.ts'
import { ApiError, errorText } from './api-error.ts'
import { Backoff } from '../../util/backoff.ts'
import {
  type Collection,
  openWatch,
  readPage,
  type Page,
  type Requests,
} from './collection.ts'
import { type IdleLimit, steadyMs } from './idle-limit.ts'
import { LossNotice, type KubernetesObserver } from './observer.ts'
import { ObjectStore } from './object-store.ts'
import {
  isRelist,
  difference,
  fallsBehind,
  isOlder,
  storedObject,
  type StoredObject,
} from './stored-object.ts'
import { defaultTiming, type Timing, WatchReader } from './watch-reader.ts'
import { errorOf, hasCode, UsherError } from '../../util/usher-error.ts'

export interface ReflectorOptions {
  readonly requests: Requests
  /** The first that the server has is read. */
  readonly collections: readonly Collection[]
  /** The server may have none of them, or forbid them: looked for again now and then. */
  readonly optional?: boolean
  readonly store: ObjectStore
  readonly clock: Clock
  /** As Math.random. */
  readonly random: () => number
  readonly observer: KubernetesObserver
  /** Called once, when the first complete state is in the store. */
  readonly synced: () => void
  /** Called whenever the server did what it was asked for. */
  readonly served: () => void
  /** Shared by all that read from the server. */
  readonly idleLimit: IdleLimit
  readonly timing?: Partial<Timing>
}

/** What is over sooner was nothing that served. */
const shortMs = 1000

/** A node asks at least every 30 s: jitter makes the longest wait twice as long. */
export const reflectorBackoff = { firstMs: 800, mostMs: 15_000 }

/**
 * Keeps a store equal to one collection of the API server: lists it, watches it, goes on
 * from the last resourceVersion when a watch ends, and lists again when it has to. It never
 * gives up, and never asks more often than its back-off allows, which only a healthy watch
 * resets, and Retry-After lengthens.
 */
export class Reflector {
  readonly #options: ReflectorOptions
  readonly #timing: Timing
  readonly #backoff: Backoff
  readonly #notice: LossNotice
  #session = new AbortController()
  /** Ends the wait after a fault that need not last; undefined when nothing may. */
  #waiting: AbortController | undefined
  /**
   * An early attempt is made once, until one fails or a watch was healthy: reflectors that
   * are served and lose it again must not wake each other for ever.
   */
  #woken = false
  /** Whether the server did anything that this attempt asked for. */
  #served = false
  #relisted = false
  #running: Promise<void> | undefined
  #closed = false
  /** Where to go on; '' when all has to be listed. */
  #resourceVersion = ''
  #relistReason = ''
  /** The server may be another one than before. */
  #doubtful = false
  #alternative = 0
  /** That of what was read last. */
  #readFrom: number | undefined
  #streaming = true
  #byField = true
  #synced = false
  #standsSince: number | undefined
  /** How long the watch was asked for. */
  #askedMs = 0
  /** Whether the watch has brought anything. */
  #delivered = false
  #waitedMs = 0
  #doing: 'list' | 'watch' = 'list'
  #error = ''
  #lastDataAt: number | undefined

  constructor(options: ReflectorOptions) {
    this.#options = options
    this.#timing = { ...defaultTiming, ...options.timing }
    this.#backoff = new Backoff({ ...reflectorBackoff, random: options.random })
    const resource = () => this.#collection.resource
    this.#notice = new LossNotice(resource, options.observer, options.clock)
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Lists again now. */
  relist(reason: string): void {
    this.#mustList(reason)
    this.#session.abort(new UsherError('RELIST', reason))
  }

  /** The server serves other reflectors: the fault of this one may be over. */
  wake(): void {
    if (this.#woken || this.#waiting === undefined) return
    this.#woken = true
    this.#waiting.abort()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#session.abort(new Error('closed'))
    await this.#running
  }

  get synced(): boolean {
    return this.#synced
  }

  /** `services`. */
  get resource(): string {
    return this.#collection.resource
  }

  /** Why the newest state can't be read; '' when it can. */
  get error(): string {
    return this.#error
  }

  /** Epoch milliseconds of the last data for the state that is held; undefined before the first. */
  get lastDataAt(): number | undefined {
    return this.#lastDataAt
  }

  get #collection(): Collection {
    const { collections } = this.#options
    const found = collections[this.#alternative] ?? collections[0]
    if (found === undefined) throw new Error('a reflector without a collection')
    if (this.#byField || found.fieldSelectorOptional !== true) return found
    const { fieldSelector: _, ...rest } = found
    return rest
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      this.#session = new AbortController()
      const { signal } = this.#session
      const error = await this.#attempt(signal).then(() => undefined, errorOf)
      // `relist` or `close`: no fault, and nothing to wait for.
      if (signal.aborted) continue
      const ms = await this.#after(error, signal)
      this.#waitedMs = ms
      if (ms > 0) await this.#wait(ms, error, signal)
    }
  }

  async #wait(ms: number, error: Error | undefined, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    if (!mayBeOver(error)) return wait(clock, ms, signal)
    this.#waiting = new AbortController()
    await wait(clock, ms, AbortSignal.any([signal, this.#waiting.signal]))
    this.#waiting = undefined
  }

  /** Lists if need be, then watches until the watch ends. */
  async #attempt(signal: AbortSignal): Promise<void> {
    if (this.#resourceVersion !== '' && this.#doubtful) await this.#probe(signal)
    if (this.#resourceVersion === '' && !this.#streaming) await this.#list(signal)
    await this.#watch(signal)
  }

  /** After a watch was lost it may be another server that answers. */
  async #probe(signal: AbortSignal): Promise<void> {
    const read: ReadPage = (collection, query, item) =>
      this.#page(collection, query, item, signal)
    const { store } = this.#options
    const version = this.#resourceVersion
    const reason = await brokenHistory(read, store, this.#collection, version)
    this.#doubtful = false
    if (reason !== '') this.#mustList(reason)
  }

  async #list(signal: AbortSignal): Promise<void> {
    this.#doing = 'list'
    const collection = this.#collection
    const gathered = new ObjectStore()
    const item = (raw: unknown) => void gathered.upsert(raw, collection)
    let page = await this.#page(collection, {}, item, signal)
    while (page.continue !== '')
      page = await this.#page(collection, { continue: page.continue }, item, signal)
    await this.#replace(gathered, page.resourceVersion, signal)
  }

  #page(
    collection: Collection,
    query: Readonly<Record<string, string>>,
    item: (item: unknown) => void,
    signal: AbortSignal,
  ): Promise<Page> {
    const { requests, clock } = this.#options
    return readPage({ requests, collection, query, clock, signal, item })
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { requests, clock, random, store, idleLimit } = this.#options
    const collection = this.#collection
    const initial = this.#resourceVersion === ''
    this.#doing = initial ? 'list' : 'watch'
    const query: Record<string, string> = initial
      ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }
      : { resourceVersion: this.#resourceVersion }
    const seconds = idleLimit.timeoutSeconds(random())
    this.#askedMs = seconds * 1000
    this.#delivered = false
    const response = await openWatch(requests, collection, query, seconds, signal)
    if (!initial) this.#stands()
    const reader = new WatchReader({
      collection,
      store,
      clock,
      timing: this.#timing,
      resourceVersion: this.#resourceVersion,
      received: () => this.#received(),
      replace: async (gathered, resourceVersion) => {
        await this.#replace(gathered, resourceVersion, signal)
        this.#stands()
      },
    })
    try {
      await reader.read(response.body)
    } finally {
      this.#delivered = reader.receivedAny
      if (this.#resourceVersion !== '') this.#resourceVersion = reader.resourceVersion
      if (reader.problem !== '') this.#mustList(reader.problem)
    }
  }

  async #replace(
    gathered: ObjectStore,
    resourceVersion: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { store, observer, synced, served } = this.#options
    await store.replace(gathered, signal)
    signal.throwIfAborted()
    this.#resourceVersion = resourceVersion
    this.#readFrom = this.#alternative
    this.#doubtful = false
    this.#received()
    this.#served = true
    served()
    if (this.#synced) {
      observer.relisted(this.#collection.resource, this.#relistReason)
      return
    }
    this.#synced = true
    synced()
  }

  /** Milliseconds to wait after an attempt; `error` undefined: the server ended the watch. */
  async #after(error: Error | undefined, signal: AbortSignal): Promise<number> {
    const { clock, optional = false } = this.#options
    const { healthyMs, rarelyMs } = this.#timing
    const now = clock.now()
    const stood = this.#standsSince === undefined ? 0 : now - this.#standsSince
    const isWatch = this.#standsSince !== undefined
    this.#standsSince = undefined
    if (!this.#served) this.#woken = false
    this.#served = false
    // Not what the server itself refused, or got wrong.
    const isCut = isWatch && (!(error instanceof UsherError) || hasCode(error, 'SILENCE'))
    const hasServed = this.#delivered || stood >= Math.max(this.#waitedMs, shortMs)
    if (stood >= healthyMs || (isCut && hasServed)) {
      this.#backoff.reset()
      this.#woken = false
      this.#relisted = false
      if (isCut && stood >= Math.min(steadyMs, this.#askedMs))
        return this.#cut(stood, error)
    }
    const fault =
      error ??
      new Error(`the server ended the watch after ${(stood / 1000).toFixed(1)} s`)
    if (error !== undefined && this.#fallBack(error)) return 0
    const status = fault instanceof ApiError ? fault.status : 0
    if (optional && status === 404 && this.#options.store.size === 0)
      return this.#absent(signal)
    const forbidden = optional && status === 403
    this.#lost(fault, forbidden)
    if (forbidden) return rarelyMs
    // What is too old is so whenever it is asked for.
    if (isRelist(fault) && !this.#relisted) {
      this.#relisted = true
      return this.#backoff.least()
    }
    const refused = status === 401 || status === 403
    const ms = this.#backoff.next(refused ? this.#timing.refusedMs : 0)
    const asked = fault instanceof ApiError ? fault.retryAfterMs : 0
    // The time that it stood counts as waited: attempts come no closer than `ms`.
    return Math.max(asked, ms - stood, this.#backoff.least())
  }

  /**
   * Milliseconds to wait after a watch that served was ended by the server, in time or not, or by
   * something on the way. That is no loss yet: the next one tells what has come meanwhile.
   */
  #cut(stood: number, error: Error | undefined): number {
    this.#doubtful = error !== undefined
    // The cluster may be quiet. Whether it is, is known when the server is asked.
    if (hasCode(error, 'SILENCE')) return 0
    if (stood < this.#askedMs - shortMs)
      this.#options.idleLimit.cut(this.#collection.resource, stood)
    return error === undefined ? 0 : this.#backoff.least()
  }

  #lost(error: Error, once: boolean): void {
    if (isRelist(error)) this.#mustList(error.message)
    // Another server, or another version of it: it does not know the API any more, or does
    // not understand what the one before was asked.
    else if (error instanceof ApiError && [400, 404, 422].includes(error.status))
      this.#mustList(error.message)
    // Also when the server answered: one that refuses may be about to be replaced.
    else this.#doubtful = true
    this.#error = `cannot ${this.#doing} ${this.#collection.resource}: ${errorText(error)}`
    this.#notice.lost(this.#error, this.#lastDataAt, once)
  }

  /** Does without what the server does not know. False when that is not what was wrong. */
  #fallBack(error: Error): boolean {
    const { collections, observer, optional = false } = this.#options
    const collection = this.#collection
    const how = (text: string) => {
      if (!optional) observer.fellBack(collection.resource, text)
    }
    const status = error instanceof ApiError ? error.status : 0
    // Whatever the message is: it differs between versions (before 1.31 the field is unknown).
    if (status === 400 && this.#byField && collection.fieldSelectorOptional) {
      this.#byField = false
      how(`the server can't select by ${collection.fieldSelector}; reads all`)
      return true
    }
    if (this.#resourceVersion !== '') return false
    // The end is not marked; or an etcd that does not report its progress.
    const unable =
      hasCode(error, 'SILENCE') || (hasCode(error, 'API_WATCH_REFUSED') && status === 500)
    // What was there once is: something on the way does not find the server.
    const isKnown = this.#readFrom === this.#alternative && !optional
    if (status === 404 && !isKnown && this.#alternative + 1 < collections.length) {
      this.#alternative += 1
      how(`${collection.path} is not served; reads ${this.#collection.path}`)
    } else if (this.#streaming && (status === 400 || status === 422 || unable)) {
      this.#streaming = false
      how("the server can't stream a list; reads pages")
    } else return false
    return true
  }

  /** The server has no such thing, which is as good as having none of them. */
  async #absent(signal: AbortSignal): Promise<number> {
    if (!this.#synced) await this.#replace(new ObjectStore(), '', signal).catch(() => {})
    this.#mustList('looks whether they are served now')
    this.#error = ''
    return this.#timing.rarelyMs
  }

  #mustList(reason: string): void {
    this.#resourceVersion = ''
    this.#relistReason = reason
    this.#alternative = 0
  }

  #stands(): void {
    this.#doing = 'watch'
    this.#standsSince = this.#options.clock.now()
    this.#received()
    this.#error = ''
    this.#notice.connected()
    this.#served = true
    this.#options.served()
  }

  #received(): void {
    this.#lastDataAt = Date.now()
  }
}

/** Whether a fault is one of the server or the way to it, rather than of what was asked. */
const mayBeOver = (error: Error | undefined): boolean =>
  !(error instanceof ApiError) ||
  (error.retryAfterMs === 0 && (error.status === 401 || error.status >= 500))

/** Reads one page of a collection. */
type ReadPage = (
  collection: Collection,
  query: Readonly<Record<string, string>>,
  item: (item: unknown) => void,
) => Promise<Page>

/**
 * Why a watch can't go on from `resourceVersion` although the server would take it; '' when
 * it can. A server that was restored from a backup, or is another one, sends nothing until
 * it gets there, and its changes until then would be lost. It is recognised by its
 * resourceVersion and, in case that has caught up, by the newest known object: it must
 * exist, and must not have been changed at a version that has been watched already. One
 * list of one object; kube-proxy's role may not `get`.
 */
const brokenHistory = async (
  read: ReadPage,
  store: ObjectStore,
  collection: Collection,
  resourceVersion: string,
): Promise<string> => {
  const known = store.newest()
  let found: StoredObject | undefined
  const item = (raw: unknown) => (found = storedObject(raw, collection))
  const [place, query] = placeOf(collection, known)
  const page = await read(place, query, item)
  const behind = fallsBehind(page.resourceVersion, resourceVersion)
  if (behind !== '' || known === undefined) return behind
  return isSameHistory(known, found, resourceVersion)
    ? ''
    : `${known.key} is not what it was: the server holds another state`
}

const isSameHistory = (
  known: StoredObject,
  found: StoredObject | undefined,
  resourceVersion: string,
): boolean => {
  // Deleted just now, which is rare, or never there: taken for the latter.
  if (found === undefined) return false
  if (found.resourceVersion === known.resourceVersion)
    return found.problems.length > 0 || difference(known, found).length === 0
  return isOlder(resourceVersion, found.resourceVersion)
}

/** Where the known object is, and how to ask for it alone. */
const placeOf = (
  collection: Collection,
  known: StoredObject | undefined,
): [Collection, Record<string, string>] => {
  if (known === undefined) return [collection, { limit: '1' }]
  const [namespace, name] = known.key.slice(collection.kind.length + 1).split('/', 2)
  const fieldSelector = `metadata.name=${name ?? namespace}`
  if (name === undefined) return [collection, { fieldSelector }]
  const path = collection.path.replace(/\/([^/]+)$/, `/namespaces/${namespace}/$1`)
  return [{ ...collection, path }, { fieldSelector }]
}
