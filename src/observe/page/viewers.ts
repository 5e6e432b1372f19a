import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { forPeople, count, lastReadText } from '../../page/format.ts'
import { takenEveryMs, type Head, type Tick } from '../../page/wire.ts'
import { type Timer, type Clock, orAborted, wait } from '../../util/clock.ts'
import { pacer, forEachYielding } from '../../util/list-diff.ts'
import type { Log } from '../log.ts'
import { countedFields, headlineOf } from '../../page/service-words.ts'
import {
  partsOf,
  portFields,
  type PortView,
  portViewsInTurn,
  rowOf,
} from '../port-view.ts'
import type { StatusInput } from '../status-document.ts'
import { event, LiveRows } from './live-rows.ts'
import type { RecentRates } from './recent-rates.ts'
import { Deferred } from '../../util/deferred.ts'
import { ProcessWatch, type ProcessFigures } from '../process-metrics.ts'
import { pageFolder } from '../../util/own-files.ts'
import { shortHash } from '../../util/short-hash.ts'
import { type Answer, plain, type Route, type Routes } from '../admin-routes.ts'

export interface ViewersDeps extends LiveSnapshotDeps {
  readonly log: Pick<Log, 'error' | 'warn'>
}

/** Of 32 connections of the server, so that probes get in. */
const mostViewers = 4
/** Bytes that wait for one of them. */
const mostWaiting = 64 * 1024
/**
 * One that has not said for so long that it takes what comes gives its place up: it reads nothing, or
 * its host is gone. Only the page can say it: kernels take megabytes for who reads nothing.
 */
const untakenMs = 4 * takenEveryMs
/** Who has the places is logged once in so long. */
const logWhoEveryMs = 60_000

interface Viewer {
  readonly out: PassThrough
  /** `ip:port`. */
  readonly client: string
  readonly since: number
  /** Ends it; undefined while nothing is there that it has not taken. */
  cut: Timer | undefined
}

/**
 * Who watches the page. Each is sent at its own pace what has changed since it was last sent, so that
 * one who reads slowly skips snapshots and costs no memory. While there is nobody none is taken.
 */
export class Viewers {
  readonly #deps: ViewersDeps
  /** By names that only they know. */
  readonly #open = new Map<string, Viewer>()
  #snapshot: LiveSnapshot | undefined
  #stop = new AbortController()
  #loggedWhoAt = -Infinity

  constructor(deps: ViewersDeps) {
    this.#deps = deps
  }

  /** What was found a moment ago, if somebody watches. */
  get latest(): StatusInput | undefined {
    return this.#snapshot?.input
  }

  /** One more: what it is to read; undefined when there are as many as may be. */
  join(client: string): Readable | undefined {
    if (this.#open.size >= mostViewers) {
      this.#logWho(client)
      return undefined
    }
    const id = randomUUID()
    const out = new PassThrough({ highWaterMark: mostWaiting })
    const viewer: Viewer = { out, client, since: this.#deps.clock.now(), cut: undefined }
    this.#open.set(id, viewer)
    out.once('close', () => this.#leaves(id, viewer))
    const snapshot = (this.#snapshot ??= this.#begin())
    void this.#send(id, viewer, snapshot)
    return out
  }

  /** It has taken what came; false: there is no such viewer. */
  takes(id: string): boolean {
    const viewer = this.#open.get(id)
    if (viewer === undefined) return false
    this.#deps.clock.clearTimeout(viewer.cut)
    // While it is full nothing is written, which would begin the time anew.
    viewer.cut = viewer.out.writableNeedDrain ? this.#cutLater(viewer) : undefined
    return true
  }

  #cutLater({ out }: Viewer): Timer {
    return this.#deps.clock.setTimeout(() => out.destroy(), untakenMs)
  }

  /** In the log, not to who is refused: that may be anybody. */
  #logWho(refused: string): void {
    const { clock, log } = this.#deps
    const now = clock.now()
    if (now - this.#loggedWhoAt < logWhoEveryMs) return
    this.#loggedWhoAt = now
    const viewers = [...this.#open.values()].map(
      ({ client, since }) => `${client} for ${forPeople(now - since)}`,
    )
    log.warn(
      { client: refused, viewers },
      'the live page has reached its maximum number of viewers',
    )
  }

  #begin(): LiveSnapshot {
    const snapshot = new LiveSnapshot(this.#deps)
    this.#stop = new AbortController()
    snapshot.run(this.#stop.signal).catch((err: unknown) => {
      this.#deps.log.error({ err }, 'the live page could not be built; retrying')
      // They come again after a while.
      for (const { out } of this.#open.values()) out.destroy()
    })
    return snapshot
  }

  #leaves(id: string, { cut }: Viewer): void {
    this.#deps.clock.clearTimeout(cut)
    this.#open.delete(id)
    if (this.#open.size > 0) return
    this.#stop.abort()
    this.#snapshot = undefined
  }

  async #send(id: string, viewer: Viewer, snapshot: LiveSnapshot): Promise<void> {
    const { out } = viewer
    const gone = new AbortController()
    out.once('close', () => gone.abort())
    const turn = pacer()
    const write = async (piece: string): Promise<void> => {
      gone.signal.throwIfAborted()
      viewer.cut ??= this.#cutLater(viewer)
      if (!out.write(piece)) await once(out, 'drain', { signal: gone.signal })
      await turn()
    }
    try {
      await write(`retry: 2000\n\n${event('begin', JSON.stringify(id))}`)
      for (let since = 0; ;) {
        const { number } = snapshot
        for (const piece of snapshot.changes(since, number)) await write(piece)
        since = number
        await orAborted(snapshot.later(number), gone.signal)
      }
    } catch {
      // It has left, or was made to.
      out.destroy()
    }
  }
}

interface LiveSnapshotDeps {
  /** All there is to know now; the relay is asked for it. */
  readonly status: () => Promise<StatusInput>
  readonly recent: Pick<RecentRates, 'texts'>
  readonly clock: Clock
}

/** Milliseconds from the end of a snapshot to the next one. */
const everyMs = 1000

/** Takes a snapshot of everything once a second, for all viewers; a slice at a time. */
class LiveSnapshot {
  readonly #deps: LiveSnapshotDeps
  readonly #rows = new LiveRows()
  /** Of the last snapshot that is complete; 0: there was none. */
  #number = 0
  #head = { json: '', changedAt: 0 }
  #tick = ''
  #taken = new Deferred<void>()
  #input: StatusInput | undefined

  constructor(deps: LiveSnapshotDeps) {
    this.#deps = deps
  }

  get number(): number {
    return this.#number
  }

  /** What the last snapshot was made of. */
  get input(): StatusInput | undefined {
    return this.#input
  }

  /** Resolves when there is a snapshot later than `number`. */
  async later(number: number): Promise<void> {
    if (this.#number <= number) await this.#taken.promise
  }

  /** Until `signal` aborts. Rejects when a snapshot fails. */
  async run(signal: AbortSignal): Promise<void> {
    const watch = new ProcessWatch()
    try {
      while (!signal.aborted) {
        await this.#take(watch)
        const taken = this.#taken
        this.#taken = new Deferred()
        taken.resolve()
        await wait(this.#deps.clock, everyMs, signal)
      }
    } finally {
      watch.close()
    }
  }

  /** Events for one that was sent `since` last, up to the snapshot `number`. */
  *changes(since: number, number: number): Generator<string> {
    if (this.#head.changedAt > since) yield event('head', this.#head.json)
    yield* this.#rows.changes(since, number)
    if (number > 0) yield event('tick', this.#tick)
  }

  async #take(watch: ProcessWatch): Promise<void> {
    const { status, clock, recent } = this.#deps
    const number = this.#number + 1
    const input = await status()
    const tick = { at: Math.round(clock.now()), now: Date.now(), failedListeners: 0 }
    await forEachYielding(await portViewsInTurn(input), view => {
      tick.failedListeners += failedBinds(view)
      const { family, key } = view.servicePort
      const identity = `${family} ${key}`
      const madeOf = partsOf(view)
      if (this.#rows.isSame(number, identity, madeOf)) return
      const text = JSON.stringify(rowOf(view))
      this.#rows.see(number, identity, text, shownCounts(view), madeOf)
    })
    this.#rows.seen(number)
    this.#rows.seePasts(number, recent.texts)
    const json = JSON.stringify(pageHead(input))
    if (json !== this.#head.json) this.#head = { json, changedAt: number }
    this.#tick = JSON.stringify(pageTick(input, await watch.read(), tick))
    this.#input = input
    this.#number = number
  }
}

const failedBinds = ({ listener }: PortView): number =>
  listener?.binds.filter(({ state }) => state === 'failed').length ?? 0

const shownCounts = (view: PortView): readonly number[] =>
  view.counters === undefined
    ? uncounted
    : countedFields.map(field => portFields[field](view) ?? 0)

const uncounted: readonly number[] = countedFields.map(() => 0)

/** Listed on the page. */
const mostProblems = 50

/** What stands above the table. */
const pageHead = (input: StatusInput): Head => {
  const { draining, health, source, problems } = input
  return {
    draining,
    unhealthy: health.healthy ? [] : health.reasons,
    node: input.node?.name ?? '',
    about: about(input),
    source: { name: source.name, error: source.error },
    counted: countedOf(input),
    problems: problems
      .slice(0, mostProblems)
      .map(({ object, field, message }) =>
        [`${object}${field === '' ? '' : ` ${field}`}`, message].join(': '),
      ),
    problemCount: problems.length,
  }
}

/** `Usher 0.1.0, userspace mode, linux relay with 2 workers, node n1`. */
const about = ({ mode, relay, node, version }: StatusInput): string =>
  [
    `Usher ${version}`,
    `${mode.name} mode`,
    ...(relay === undefined ? [] : [relayText(relay)]),
    ...(node === undefined ? [] : [`node ${node.name}`]),
  ].join(', ')

const relayText = ({ name, workers }: NonNullable<StatusInput['relay']>): string =>
  `${name} relay${name === 'portable' ? '' : ` with ${count(workers, 'worker')}`}`

const countedOf = ({ mode, relay }: StatusInput): Head['counted'] => {
  if (mode.name === 'userspace') return 'all'
  return relay === undefined ? 'none' : 'some'
}

/** For a browser without JavaScript, and until the first figures are there. */
const healthSentence = (input: StatusInput, now: number): string => {
  const head = pageHead(input)
  const { name, lastGoodAt } = input.source
  const { parts } = headlineOf(head, [])
  return `${parts.join(' · ')}. ${head.about}; ${lastReadText(name, lastGoodAt, now)}.`
}

const ms = (seconds: number | undefined): number =>
  Math.round((seconds ?? 0) * 10_000) / 10

/** Figures of a moment. */
const pageTick = (
  input: StatusInput,
  figures: ProcessFigures,
  tick: Pick<Tick, 'at' | 'now' | 'failedListeners'>,
): Tick => {
  const { startedAt, stats, health, source } = input
  const { fds, acceptPaused, workers = [], restarts = 0 } = stats
  return {
    ...tick,
    startedAt,
    heardAt: source.lastGoodAt ?? null,
    appliedAt: health.lastUpdated ?? null,
    fds,
    acceptPaused,
    openFds: figures.openFds ?? null,
    lateMs: ms(new Map(figures.delays).get(1)),
    busy: Math.round(figures.utilization * 1000) / 1000,
    memory: figures.memory.rss,
    workers,
    restarts,
  }
}

interface PageDeps {
  readonly viewers: Pick<Viewers, 'join' | 'takes'>
  /** All but what the relay has to be asked for. */
  readonly status: () => StatusInput
}

/** Nothing from elsewhere, no script but its own files, no frame of another site. */
const guarded = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
}

const contentTypes: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
}

/** The live page: `/`, its files, and `/stream`, by which it learns what changes. */
export const pageRoutes = ({ viewers, status }: PageDeps): Routes => {
  const files = existsSync(pageFolder) ? readdirSync(pageFolder) : []
  return new Map<string, Route>([
    ['/', { answer: () => firstPage(status()) }],
    ...files
      .filter(name => /\.(?:js|css)$/.test(name))
      .map(name => [`/page/${name}`, fileRoute(new URL(name, pageFolder))] as const),
    [
      '/stream',
      {
        unlisted: true,
        notForOtherSites: true,
        answer: (_given, client) => streamTo(viewers, client),
      },
    ],
    [
      '/stream/taken',
      {
        unlisted: true,
        notForOtherSites: true,
        query: asked => new URLSearchParams(asked).get('viewer') ?? '',
        answer: viewer => takenBy(viewers, viewer),
      },
    ],
  ])
}

const firstPage = async (status: StatusInput): Promise<Answer> => {
  const page = await readFile(new URL('page.html', pageFolder), 'utf8')
  const sentence = escaped(healthSentence(status, Date.now()))
  return file(
    'html',
    page.replace('{{health}}', () => sentence),
  )
}

/** Text for HTML: names in it are the cluster's. */
const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, char => `&#${char.charCodeAt(0)};`)

const fileRoute = (url: URL): Route => ({
  unlisted: true,
  answer: async () =>
    file(/\w+$/.exec(url.pathname)?.[0] ?? '', await readFile(url, 'utf8')),
})

const file = (kind: string, body: string): Answer => ({
  status: 200,
  contentType: contentTypes[kind] ?? 'text/plain',
  body,
  headers: { ...guarded, ETag: `"${shortHash(body)}"` },
})

const takenBy = (viewers: Pick<Viewers, 'takes'>, viewer: string): Answer =>
  viewers.takes(viewer) ? plain(200, 'ok') : plain(404, 'there is no such viewer')

const streamTo = (viewers: Pick<Viewers, 'join'>, client: string): Answer => {
  const body = viewers.join(client)
  return body === undefined
    ? plain(
        503,
        `${mostViewers} watch already, and no more can; close another page: the log says where from they watch`,
      )
    : {
        status: 200,
        contentType: 'text/event-stream',
        body,
        // For proxies on the way, which would keep it together.
        headers: { ...guarded, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' },
      }
}
