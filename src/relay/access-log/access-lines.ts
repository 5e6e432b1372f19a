import { isDeepStrictEqual } from 'node:util'
import type { ConnectionRecord } from '../cause.ts'
import type { Counters } from '../counters.ts'
import type { AccessBatch, RelayListener, RelayObserver } from '../relay.ts'
import type { AccessEntry, LoggedRoute, OpenNow, Waited } from './access-entry.ts'
import { jsonLines } from './json-line.ts'
import { tcplogLines } from './tcplog-line.ts'

/** The access log of one listener: a line for each of its connections, when it has ended. */
export class AccessLines {
  readonly #route: LoggedRoute
  readonly #listener: string
  readonly #counters: Pick<Counters, 'add'>
  readonly #observer: Pick<RelayObserver, 'accessLines'>
  readonly #line: (entry: AccessEntry) => string

  constructor(
    route: LoggedRoute,
    listener: string,
    counters: Pick<Counters, 'add'>,
    observer: Pick<RelayObserver, 'accessLines'>,
  ) {
    this.#route = route
    this.#listener = listener
    this.#counters = counters
    this.#observer = observer
    this.#line = route.format === 'json' ? jsonLines(route) : tcplogLines(route)
  }

  /** The same, or what takes its place when the listener has changed; undefined: it has none. */
  static of(
    { name, fronts, accessLog }: RelayListener,
    counters: Pick<Counters, 'add'>,
    observer: Pick<RelayObserver, 'accessLines'>,
    before: AccessLines | undefined,
  ): AccessLines | undefined {
    if (accessLog === undefined) return undefined
    const [bind, ...others] = fronts.flatMap(({ binds }) => binds)
    const route = { ...accessLog, bind: others.length === 0 ? bind : undefined }
    if (before !== undefined && before.#is(name, route)) return before
    return new AccessLines(route, name, counters, observer)
  }

  /** A connection has ended. */
  add(record: ConnectionRecord, waited: Waited, open: OpenNow): void {
    const text = this.#line({ record, waited, open, endedAt: Date.now() })
    this.#counters.add('accessLines', 1)
    const { to } = this.#route
    this.#observer.accessLines?.({
      listener: this.#listener,
      to,
      text,
      lines: 1,
      lost: 0,
    })
  }

  #is(listener: string, route: LoggedRoute): boolean {
    return this.#listener === listener && isDeepStrictEqual(this.#route, route)
  }
}

/** Bytes of lines of one listener that may wait for who writes them. */
const mostWaiting = 4 * 1024 * 1024

/** Lines of several listeners that wait, bounded: beyond that they are counted and lost. */
export class WaitingLines {
  readonly #byListener = new Map<string, Mutable>()

  add(batch: AccessBatch): void {
    const key = batch.listener + batch.to
    const known = this.#byListener.get(key)
    if (known === undefined) this.#byListener.set(key, { ...batch })
    else join(known, batch)
  }

  get isEmpty(): boolean {
    return this.#byListener.size === 0
  }

  take(): readonly AccessBatch[] {
    if (this.isEmpty) return none
    const taken = [...this.#byListener.values()]
    this.#byListener.clear()
    return taken
  }
}

type Mutable = { -readonly [K in keyof AccessBatch]: AccessBatch[K] }

const none: readonly AccessBatch[] = []

const join = (known: Mutable, { text, lines, lost }: AccessBatch): void => {
  known.lost += lost
  if (known.text.length + text.length > mostWaiting) {
    known.lost += lines
    return
  }
  known.text += text
  known.lines += lines
}

/**
 * What has come of the lines of a worker, or process, to tell how many went with it when it dies:
 * those that it had made and not handed over, and those of the connections that it had.
 */
export class ReceivedLines {
  readonly #byListener = new Map<string, number>()

  received({ listener, lines, lost }: AccessBatch): void {
    this.#byListener.set(listener, (this.#byListener.get(listener) ?? 0) + lines + lost)
  }

  /** It has died; `made` and `active` are its counters. Undefined where nothing is lost. */
  lost(
    { name, accessLog }: Pick<RelayListener, 'name' | 'accessLog'>,
    { accessLines: made, active }: { accessLines: number; active: number },
  ): AccessBatch | undefined {
    if (accessLog === undefined && made === 0) return undefined
    const waiting = Math.max(made - (this.#byListener.get(name) ?? 0), 0)
    this.#byListener.set(name, made)
    const lost = accessLog === undefined ? waiting : waiting + active
    if (lost === 0) return undefined
    return { listener: name, to: accessLog?.to ?? '', text: '', lines: 0, lost }
  }

  forgetAllBut(listeners: ReadonlySet<string>): void {
    for (const name of this.#byListener.keys())
      if (!listeners.has(name)) this.#byListener.delete(name)
  }

  /** A listener is gone, and its counters with it. */
  forget(listener: string): void {
    this.#byListener.delete(listener)
  }
}
