import {
  addedLine,
  bookmarkLine,
  brokenLine,
  changeLine,
  errorLine,
  garbageLine,
  hugeLine,
  staleLine,
} from './events.ts'
import type { Fault } from './faults.ts'
import { checkListOptions } from './list-options.ts'
import type { Behaviour } from './options.ts'
import { selectorOf } from './query.ts'
import { tooOldWatch } from './refusals.ts'
import type { Reply } from './reply.ts'
import type { Resource } from './resources.ts'
import type { Selector } from './selectors.ts'
import type { Change, Store } from './store.ts'
import type { Stored } from './stored.ts'
import { isTrue, type Target } from './target.ts'
import { type WatchStart, watchStart } from './watch-start.ts'

/** What may happen to a watch in the middle of its life. */
export type Disturbance =
  /** Ended in good order, or in the middle of a line. */
  | 'close'
  | 'truncate'
  | 'fin'
  | 'rst'
  /** Open, silent and deaf from now on. */
  | 'half-open'
  | 'garbage'
  /** The last event again. */
  | 'duplicate'
  /** What the last event changed, as it was before. */
  | 'stale'
  /** A line of eight megabytes. */
  | 'huge-line'
  /** ERROR 410. */
  | 'gone'

const hugeBytes = 8 << 20
const endlessSeconds = 1800

/** Lines that may wait for a slow reader before the watch is ended. */
const mostWaiting = 100_000

/** One watch of one client. */
export class Watch {
  readonly resource: Resource
  readonly #store: Store
  readonly #reply: Reply
  readonly #behaviour: Behaviour
  readonly #fault: Fault | undefined
  readonly #selects: Selector
  readonly #start: WatchStart
  readonly #bookmarks: boolean
  readonly #seconds: number
  /** What waits to be written. */
  #waiting: (string | Iterable<string>)[] = []
  #pumping = false
  #last: Change | undefined
  #ending = false

  /** Throws what is wrong with the request. */
  constructor(
    store: Store,
    resource: Resource,
    target: Target,
    behaviour: Behaviour,
    reply: Reply,
    fault: Fault | undefined,
  ) {
    const { query } = target
    this.resource = resource
    this.#store = store
    this.#reply = reply
    this.#behaviour = behaviour
    this.#fault = fault
    checkListOptions(query, behaviour)
    this.#selects = selectorOf(resource, target, behaviour)
    this.#start = watchStart(store, resource, target, behaviour)
    this.#bookmarks = isTrue(query.get('allowWatchBookmarks'))
    this.#seconds = Number(query.get('timeoutSeconds') ?? '') || endlessSeconds
  }

  run(): void {
    this.#reply.start(200)
    const { after, initial, marked, error } = this.#start
    const version = this.#store.version
    this.#misbehaveFirst(version)
    if (error !== undefined) this.#say(errorLine(error))
    if (error !== undefined || this.#fault?.kind === 'close') return this.#end()
    if (initial) {
      this.#say(linesOf(this.#store.list(this.resource).filter(this.#selects)))
      if (marked && this.#bookmarks) this.#say(bookmarkLine(this.resource, version, true))
    } else if (after < version)
      for (const change of this.#store.since(this.resource, after)) this.#tell(change)
    this.#follow()
  }

  disturb(how: Disturbance): void {
    if (how === 'close') this.#end()
    else if (how === 'fin' || how === 'rst') {
      // In the middle of a line, as it would happen.
      this.#say(brokenLine)
      setImmediate(() => this.#reply.cut(how))
    } else if (how === 'truncate') {
      this.#say(brokenLine)
      this.#end()
    } else if (how === 'half-open') this.#reply.freeze()
    else if (how === 'garbage') this.#say(garbageLine)
    else if (how === 'duplicate') this.#repeat(changeLine)
    else if (how === 'stale') this.#repeat(staleLine)
    else if (how === 'huge-line')
      this.#say(hugeLine(this.resource, this.#store.version, hugeBytes))
    else {
      this.#say(errorLine(tooOldWatch(this.#start.after, this.#store.version)))
      this.#end()
    }
  }

  #misbehaveFirst(version: number): void {
    if (this.#fault?.kind === 'garbage') this.#say(garbageLine)
    if (this.#fault?.kind === 'huge-line')
      this.#say(hugeLine(this.resource, version, this.#fault.bytes))
  }

  #follow(): void {
    const unsubscribe = this.#store.subscribe(change => {
      if (change.now.resource === this.resource) this.#tell(change)
    })
    const bookmarks = setInterval(() => {
      // Never one from before the version that the client has.
      if (this.#bookmarks && this.#store.version >= this.#start.after)
        this.#say(bookmarkLine(this.resource, this.#store.version, false))
    }, this.#behaviour.bookmarkEveryMs)
    const timeout = setTimeout(() => this.#end(), this.#seconds * 1000)
    this.#reply.onClose(() => {
      unsubscribe()
      clearInterval(bookmarks)
      clearTimeout(timeout)
      this.#waiting = []
    })
  }

  #tell(change: Change): void {
    if (change.version <= this.#start.after) return
    const line = changeLine(change, this.#selects)
    if (line === undefined) return
    this.#say(line)
    this.#last = change
    if (this.#fault?.kind === 'duplicate') this.#repeat(changeLine)
    if (this.#fault?.kind === 'stale') this.#repeat(staleLine)
  }

  #repeat(write: typeof changeLine): void {
    const line = this.#last && write(this.#last, this.#selects)
    if (line !== undefined) this.#say(line)
  }

  #end(): void {
    this.#ending = true
    void this.#pump()
  }

  #say(lines: string | Iterable<string>): void {
    if (!this.#reply.open) return
    this.#waiting.push(lines)
    if (this.#waiting.length > mostWaiting) this.#reply.cut('fin')
    void this.#pump()
  }

  async #pump(): Promise<void> {
    if (this.#pumping) return
    this.#pumping = true
    for (;;) {
      const next = this.#waiting.shift()
      if (next === undefined || !this.#reply.open) break
      for (const text of typeof next === 'string' ? [next] : next)
        await this.#reply.write(text)
    }
    this.#pumping = false
    if (this.#ending) this.#reply.end()
  }
}

/** Some at a time: a write for each of ten thousand lines would be slow. */
const linesOf = function* (objects: readonly Stored[]): Generator<string> {
  for (let i = 0; i < objects.length; i += 50)
    yield objects
      .slice(i, i + 50)
      .map(addedLine)
      .join('')
}
