import { hostname } from 'node:os'
import { Backoff } from '../../util/backoff.ts'
import { systemClock, type Clock, wait } from '../../util/clock.ts'
import { printable } from '../../util/printable.ts'
import { ApiError } from './api-error.ts'
import type { Requests } from './collection.ts'
import { messageOf } from '../../util/usher-error.ts'
import { randomBytes } from 'node:crypto'

/** An Event about the Node or a Service, for people. */
export interface ClusterEvent {
  readonly type: 'Normal' | 'Warning'
  /** `Starting`, `FailedToStartServiceHealthcheck`: at most 128 characters. */
  readonly reason: string
  /** `StartKubeProxy`: at most 128 characters. */
  readonly action: string
  /** Cut at 1024 characters. */
  readonly message: string
  readonly regarding: {
    readonly kind: 'Node' | 'Service'
    readonly name: string
    /** '' for a Node. */
    readonly namespace: string
    /** `kubectl describe` shows those with it. A Node's own name, as kube-proxy has it, if not given. */
    readonly uid?: string | undefined
  }
}

/** The API's own bound for `note`. */
const longestNote = 1024
/** The API's own bound for `reportingInstance`. */
const longestInstance = 128

interface EventBody {
  /** Where Events of that namespace are. */
  readonly path: string
  readonly name: string
  readonly body: unknown
}

/** An events.k8s.io/v1 Event. Those about Nodes are in `default`. */
const eventBody = (event: ClusterEvent, instance: string): EventBody => {
  const { kind, name, uid } = event.regarding
  const namespace = event.regarding.namespace || 'default'
  const id = `${name.slice(0, 230)}.${randomBytes(8).toString('hex')}`
  const regarding = {
    kind,
    apiVersion: 'v1',
    name,
    ...(kind === 'Service' && { namespace }),
    uid: uid ?? (kind === 'Node' ? name : undefined),
  }
  const body = {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: id, namespace },
    eventTime: microTime(),
    reportingController: 'kube-proxy',
    reportingInstance: `kube-proxy-${instance}`.slice(0, longestInstance),
    action: event.action,
    reason: event.reason,
    regarding,
    note: event.message.slice(0, longestNote),
    type: event.type,
  }
  const path = `/apis/events.k8s.io/v1/namespaces/${namespace}/events`
  return { path, name: id, body }
}

/** A patch that says how often an Event has come by now. */
const repeatBody = (count: number): unknown => ({
  series: { count, lastObservedTime: microTime() },
})

/** metav1.MicroTime wants six digits. */
const microTime = (): string => new Date().toISOString().replace('Z', '000Z')

export interface EventRecorderOptions {
  readonly requests: Requests
  /** Who reports: the name of the Node. */
  readonly instance?: string
  readonly clock?: Clock
  /** Called once when events can't be sent, and again after some were. */
  readonly onFailure?: (reason: string) => void
}

/** Events that wait to be sent; more are dropped. */
const mostWaiting = 100
/** The same event within this time is a repetition, in milliseconds (client-go's six minutes). */
const seriesMs = 6 * 60_000
/** A repetition is reported at most so often, in milliseconds. */
const repeatMs = 60_000
const mostRemembered = 200
const mostAttempts = 5
const retryBackoff = { firstMs: 1000, mostMs: 15_000, random: Math.random }

interface Sent {
  /** Where it can be patched; undefined until the server has it. */
  path: string | undefined
  count: number
  readonly firstAt: number
  reportedAt: number
  lastAt: number
}

/**
 * Sends Events to the cluster, in the background: it never throws, never waits, and drops
 * what can't be sent.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions
  readonly #clock: Clock
  readonly #abort = new AbortController()
  readonly #queue: (() => Promise<void>)[] = []
  /** By what makes two events the same; oldest first. */
  readonly #sent = new Map<string, Sent>()
  #sending: Promise<void> | undefined
  #failures = 0
  #failing = false

  constructor(options: EventRecorderOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  /** Events that were dropped or refused since the start. */
  get failures(): number {
    return this.#failures
  }

  emit(event: ClusterEvent): void {
    if (this.#abort.signal.aborted) return
    const now = this.#clock.now()
    const key = JSON.stringify(event)
    const before = this.#sent.get(key)
    if (before !== undefined && now - before.lastAt < seriesMs)
      return this.#repeat(before, now)
    const sent: Sent = {
      path: undefined,
      count: 1,
      firstAt: now,
      reportedAt: now,
      lastAt: now,
    }
    this.#sent.delete(key)
    this.#sent.set(key, sent)
    const [oldest] = this.#sent.keys()
    if (this.#sent.size > mostRemembered && oldest !== undefined)
      this.#sent.delete(oldest)
    const { path, name, body } = eventBody(event, this.#options.instance ?? hostname())
    this.#enqueue(async () => {
      await this.#send('POST', path, body)
      sent.path = `${path}/${name}`
    })
  }

  /** Sends nothing any more; what waits is dropped. */
  async close(): Promise<void> {
    this.#abort.abort(new Error('closed'))
    this.#queue.length = 0
    await this.#sending
  }

  #repeat(sent: Sent, now: number): void {
    sent.count += 1
    sent.lastAt = now
    if (now - sent.reportedAt < repeatMs) return
    sent.reportedAt = now
    this.#enqueue(async () => {
      // The first could not be sent, so that there is nothing to add to.
      if (sent.path === undefined) return
      await this.#send('PATCH', sent.path, repeatBody(sent.count))
    })
  }

  #enqueue(job: () => Promise<void>): void {
    if (this.#queue.length >= mostWaiting)
      return this.#failed('too many events are queued')
    this.#queue.push(job)
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined))
  }

  async #sendAll(): Promise<void> {
    for (let job = this.#queue.shift(); job !== undefined; job = this.#queue.shift()) {
      try {
        await job()
        this.#failing = false
      } catch (error) {
        if (this.#abort.signal.aborted) return
        this.#failed(messageOf(error))
      }
    }
  }

  async #send(method: 'POST' | 'PATCH', path: string, body: unknown): Promise<void> {
    const { signal } = this.#abort
    const backoff = new Backoff(retryBackoff)
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#request(method, path, body)
      } catch (error) {
        // The server has it: the answer to an earlier attempt was lost.
        if (method === 'POST' && error instanceof ApiError && error.status === 409) return
        if (attempt === mostAttempts || !mayPass(error)) throw error
      }
      await wait(this.#clock, backoff.next(), signal)
      signal.throwIfAborted()
    }
  }

  async #request(method: 'POST' | 'PATCH', path: string, body: unknown): Promise<void> {
    const { signal } = this.#abort
    const contentType =
      method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const request = { method, path, body, contentType, signal }
    const response = await this.#options.requests.request(request)
    response.body.on('error', () => {})
    response.body.resume()
  }

  #failed(reason: string): void {
    this.#failures += 1
    if (this.#failing) return
    this.#failing = true
    this.#options.onFailure?.(`cannot send events: ${printable(reason, 300)}`)
  }
}

/** Whether the same request may succeed later. */
const mayPass = (error: unknown): boolean =>
  !(error instanceof ApiError) || error.status === 429 || error.status >= 500
