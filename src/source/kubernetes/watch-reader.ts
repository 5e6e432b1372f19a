import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../util/clock.ts'
import { parseJson, peek } from '../../util/printable.ts'
import { ApiError } from './api-error.ts'
import type { Collection } from './collection.ts'
import { LineSplitter } from './json-stream.ts'
import { ObjectStore } from './object-store.ts'
import { readBody, Watchdog } from './read-body.ts'
import { isOlder, fallsBehind } from './stored-object.ts'
import { UsherError } from '../../util/usher-error.ts'

/** How long a reflector waits for what, in milliseconds. */
export interface Timing {
  /**
   * A watch that sends nothing for so long is opened anew: bookmarks come about each minute, but not
   * where nothing in the whole cluster changes.
   */
  readonly silenceMs: number
  /** The same for a streaming list that has not ended: a server that does not mark its end never ends it. */
  readonly markSilenceMs: number
  /** The longest for a streaming list, which changes may keep from being silent. */
  readonly markMs: number
  /** A watch that stood for so long was healthy, whatever ended it, and waits begin anew. */
  readonly healthyMs: number
  /** Waits after 401 and 403, which people have to fix, begin here. */
  readonly refusedMs: number
  /** Before looking again for what the server does not serve. */
  readonly rarelyMs: number
}

export const defaultTiming: Timing = {
  silenceMs: 70_000,
  markSilenceMs: 10_000,
  markMs: 60_000,
  healthyMs: 60_000,
  refusedMs: 5000,
  rarelyMs: 600_000,
}

export interface WatchReaderOptions {
  readonly collection: Collection
  readonly store: ObjectStore
  readonly clock: Clock
  readonly timing: Timing
  /** From where the watch goes on; '' for one that begins with the whole state. */
  readonly resourceVersion: string
  /** Called with each sign of life, once the state is complete. */
  readonly received: () => void
  /** The whole state is there, as of `resourceVersion`. */
  readonly replace: (gathered: ObjectStore, resourceVersion: string) => Promise<void>
}

/** Reads one watch to its end and keeps the store up with it. */
export class WatchReader {
  readonly #options: WatchReaderOptions
  readonly #lines = new LineSplitter()
  /** The first state, until it is complete. */
  #gathered: ObjectStore | undefined
  #markWatch: readonly Watchdog[] = []
  #resourceVersion: string
  /** The version of the state that the watch goes on from. */
  #since: string
  #receivedAny = false
  #disorder = false
  #problem = ''

  constructor(options: WatchReaderOptions) {
    this.#options = options
    this.#resourceVersion = options.resourceVersion
    this.#since = options.resourceVersion
    if (options.resourceVersion === '') this.#gathered = new ObjectStore()
  }

  /** Where the next watch can go on. */
  get resourceVersion(): string {
    return this.#resourceVersion
  }

  /** Whether the server sent anything. */
  get receivedAny(): boolean {
    return this.#receivedAny
  }

  /** Why the next watch must not go on from here; '' when it can. */
  get problem(): string {
    return this.#problem
  }

  /** Resolves when the server ends the watch in good order; rejects with what else ended it. */
  async read(body: IncomingMessage): Promise<void> {
    const { clock, timing, received } = this.#options
    this.#awaitMark(body)
    const chunk = async (part: Buffer): Promise<void> => {
      if (this.#gathered === undefined) received()
      this.#markWatch[0]?.touch()
      for (const line of this.#lines.push(part)) await this.#event(watchEvent(line))
      this.#options.store.flush()
    }
    try {
      await readBody(body, { clock, silenceMs: timing.silenceMs, chunk })
      if (this.#lines.rest > 0)
        throw new UsherError('MALFORMED', 'the watch ended in the middle of a line')
      if (this.#gathered !== undefined)
        throw new Error('the watch ended before the first state was complete')
    } finally {
      this.#endMarkWatch()
      // What came before the fault holds.
      this.#options.store.flush()
      if (this.#disorder) this.#problem = 'events came out of order'
    }
  }

  /** A server that does not know about streaming lists never marks their end. */
  #awaitMark(body: IncomingMessage): void {
    if (this.#gathered === undefined) return
    const { clock, timing } = this.#options
    const late = () =>
      body.destroy(new UsherError('SILENCE', 'the end of the initial list did not come'))
    const { markSilenceMs, markMs } = timing
    this.#markWatch = [markSilenceMs, markMs].map(ms => new Watchdog(clock, ms, late))
  }

  #endMarkWatch(): void {
    for (const watchdog of this.#markWatch) watchdog.stop()
    this.#markWatch = []
  }

  async #event(event: WatchEvent): Promise<void> {
    this.#receivedAny = true
    if (this.#gathered !== undefined) return this.#initial(event, this.#gathered)
    if (event.type === 'BOOKMARK') this.#bookmark(event)
    else this.#follow(event, this.#change(event, this.#options.store))
  }

  async #initial(event: WatchEvent, gathered: ObjectStore): Promise<void> {
    if (event.type !== 'BOOKMARK') this.#change(event, gathered)
    if (!endsInitialEvents(event)) return
    this.#endMarkWatch()
    this.#gathered = undefined
    this.#resourceVersion = event.resourceVersion
    this.#since = event.resourceVersion
    await this.#options.replace(gathered, event.resourceVersion)
  }

  #change({ type, object }: WatchEvent, store: ObjectStore): boolean {
    const { collection } = this.#options
    return type === 'DELETED'
      ? store.remove(object, collection)
      : store.upsert(object, collection, this.#since)
  }

  #bookmark({ resourceVersion }: WatchEvent): void {
    const reason = fallsBehind(resourceVersion, this.#resourceVersion)
    if (reason !== '') throw new UsherError('RELIST', reason)
    this.#resourceVersion = resourceVersion
  }

  /**
   * One server sends a collection's changes in the order of their versions. Known events of
   * the past change nothing. A new one was overtaken by others: then more may be missing,
   * and the next watch can't go on from the newest version.
   */
  #follow({ resourceVersion }: WatchEvent, isNews: boolean): void {
    if (!isOlder(resourceVersion, this.#resourceVersion))
      this.#resourceVersion = resourceVersion
    else if (isNews) this.#disorder = true
  }
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: unknown
  readonly resourceVersion: string
}

const types: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])

/** Reads one line of a watch. Throws ApiError for an ERROR event, MALFORMED for nonsense. */
const watchEvent = (line: string): WatchEvent => {
  const event = parseJson(line)
  if (event === undefined)
    throw new UsherError('MALFORMED', 'the server sent a line that is not JSON')
  const type = peek(event, 'type')
  const object = peek(event, 'object')
  if (type === 'ERROR') {
    const code = peek(object, 'code')
    const status = typeof code === 'number' ? code : 500
    throw new ApiError(status, object, 0, 'API_WATCH_REFUSED')
  }
  const resourceVersion = peek(peek(object, 'metadata'), 'resourceVersion')
  if (!isType(type) || typeof resourceVersion !== 'string')
    throw new UsherError('MALFORMED', 'the server sent a line that is not an event')
  return { type, object, resourceVersion }
}

const isType = (type: unknown): type is WatchEvent['type'] => types.has(type)

/** Whether a bookmark says that the state asked for with `sendInitialEvents` is complete. */
const endsInitialEvents = ({ type, object }: WatchEvent): boolean =>
  type === 'BOOKMARK' &&
  peek(peek(peek(object, 'metadata'), 'annotations'), 'k8s.io/initial-events-end') ===
    'true'
