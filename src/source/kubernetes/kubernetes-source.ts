import type { Change } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import { systemClock, type Clock, type Timer } from '../../util/clock.ts'
import type { AddressPort } from '../../util/ip.ts'
import type { Source, SourceSink, SourceStatus } from '../source.ts'
import type { ApiClient } from './api-client.ts'
import * as api from './collection.ts'
import type { Collection } from './collection.ts'
import { IdleLimit } from './idle-limit.ts'
import { ObjectStore } from './object-store.ts'
import type { KubernetesObserver } from './observer.ts'
import { Reflector } from './reflector.ts'
import type { Timing } from './watch-reader.ts'

export interface KubernetesSourceOptions {
  readonly client: ApiClient
  /** Of the Node this runs on; '' when it is none. */
  readonly nodeName: string
  /** Other Nodes are read too, where there is one; by default they are not. */
  readonly otherNodes?: boolean
  readonly observer: KubernetesObserver
  readonly clock?: Clock
  /** As Math.random. */
  readonly random?: () => number
  readonly timing?: Partial<Timing>
}

interface Reader {
  readonly reflector: Reflector
  readonly store: ObjectStore
}

/** How long the Node is waited for when all else is there, in milliseconds. */
const nodeWaitMs = 3000

/**
 * Services from a Kubernetes API server. `start` resolves when Services and slices are
 * there, however long that takes, or at `close`; it never rejects. The Node is waited for
 * a little, so that zones are right from the first sync. While the server is away the last
 * state stays in effect.
 */
export class KubernetesSource implements Source {
  readonly #options: KubernetesSourceOptions
  readonly #clock: Clock
  /** Services, slices, ServiceCIDRs, the Node. */
  readonly #services: Reader
  readonly #slices: Reader
  readonly #node: Reader | undefined
  readonly #readers: readonly Reader[]
  readonly #idleLimit: IdleLimit
  /** Ends the waiting of `start`. */
  #started: () => void = () => {}
  #closed = false
  #sink: SourceSink | undefined
  #nodeTimer: Timer | undefined
  #synced = false
  #nodeIsMissing = false
  /** Of one that has gone the model reports what is kept. */
  #nodeWasThere = false

  constructor(options: KubernetesSourceOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#idleLimit = new IdleLimit(ms => options.observer.idleLimit(ms))
    this.#services = this.#reader([api.services])
    this.#slices = this.#reader(api.endpointSlices)
    this.#node =
      options.nodeName === '' ? undefined : this.#reader([api.node(options.nodeName)])
    this.#readers = [
      this.#services,
      this.#slices,
      ...(this.#node === undefined ? [] : [this.#node]),
      ...(this.#node !== undefined && options.otherNodes === true
        ? [this.#reader([api.otherNodes(options.nodeName)], true)]
        : []),
      this.#reader(api.serviceCIDRs, true),
    ]
  }

  async start(sink: SourceSink): Promise<void> {
    this.#sink = sink
    if (this.#closed) return
    this.#options.client.dialled.changed = () => this.#call(one => one.apply([]))
    const started = new Promise<void>(resolve => (this.#started = resolve))
    for (const { reflector } of this.#readers) reflector.start()
    await started
  }

  reload(): void {
    for (const { reflector } of this.#readers) reflector.relist('asked to')
  }

  dials(): readonly AddressPort[] {
    return this.#options.client.dialled.all
  }

  status(): SourceStatus {
    const states = [this.#services, this.#slices].map(
      ({ reflector }) => reflector.lastDataAt,
    )
    const lastGoodAt = states.includes(undefined)
      ? undefined
      : Math.min(...states.map(Number))
    return {
      name: `kubernetes ${this.#options.client.server}`,
      synced: this.#synced,
      lastGoodAt: this.#synced ? lastGoodAt : undefined,
      error: this.#error(),
    }
  }

  /** Why nothing is known of the Node, for people; asked when that is so. */
  nodeProblem(): string {
    const { nodeName } = this.#options
    const { store, reflector } = this.#node ?? {}
    if (reflector?.error) return reflector.error
    if (!reflector?.synced) return `the Node ${nodeName} has not been read yet`
    // An object that was refused: what is wrong with it is a problem of its own.
    if (store !== undefined && store.size > 0) return `the Node ${nodeName} has problems`
    return this.#nodeWasThere
      ? `the Node ${nodeName} was deleted; its last known state is used until it is back`
      : `the API server has no Node ${nodeName}; --hostname-override gives another name`
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#clock.clearTimeout(this.#nodeTimer)
    this.#started()
    await Promise.all(this.#readers.map(({ reflector }) => reflector.close()))
    this.#options.client.close()
  }

  #reader(collections: readonly Collection[], optional = false): Reader {
    const { client, observer, random = Math.random, timing = {} } = this.#options
    const store = new ObjectStore({
      apply: changes => this.#apply(changes),
      problemsChanged: () => this.#reportProblems(),
    })
    const reflector = new Reflector({
      requests: client,
      collections,
      optional,
      store,
      clock: this.#clock,
      random,
      observer,
      synced: () => this.#checkSynced(),
      served: () => this.#wakeAll(),
      idleLimit: this.#idleLimit,
      timing,
    })
    return { reflector, store }
  }

  #wakeAll(): void {
    for (const { reflector } of this.#readers) reflector.wake()
  }

  #apply(changes: readonly Change[]): void {
    this.#call(sink => sink.apply(changes))
    this.#checkNode()
  }

  #reportProblems(): void {
    const problems = this.#readers.flatMap(({ store }) => store.problems())
    const all = this.#nodeIsMissing ? [...problems, this.#noNode()] : problems
    this.#call(sink => sink.problems(all))
  }

  /** Without its Node no endpoint is local, and health checks keep load balancers away. */
  #checkNode(): void {
    const { store, reflector } = this.#node ?? {}
    // One that was never read may be there, and be forbidden.
    this.#nodeWasThere ||= store !== undefined && store.size > 0
    const isMissing = this.#synced && reflector?.synced === true && !this.#nodeWasThere
    if (isMissing === this.#nodeIsMissing) return
    this.#nodeIsMissing = isMissing
    this.#reportProblems()
  }

  #noNode(): Problem {
    return {
      object: `Node ${this.#options.nodeName}`,
      field: '',
      message:
        'the API server has no Node of this name; give the right one with --hostname-override',
    }
  }

  /** A sink that throws is a fault of the program: it must not be taken for one of the server, and retried. */
  #call(use: (sink: SourceSink) => void): void {
    if (this.#closed || this.#sink === undefined) return
    try {
      use(this.#sink)
    } catch (error) {
      process.nextTick(() => {
        throw error
      })
    }
  }

  #checkSynced(): void {
    if (this.#synced) return this.#checkNode()
    if (!this.#services.reflector.synced || !this.#slices.reflector.synced) return
    if (this.#node === undefined || this.#node.reflector.synced) return this.#setSynced()
    this.#nodeTimer ??= this.#clock.setTimeout(() => this.#setSynced(), nodeWaitMs)
  }

  #setSynced(): void {
    this.#clock.clearTimeout(this.#nodeTimer)
    if (this.#synced || this.#closed) return
    this.#synced = true
    this.#call(sink => sink.synced())
    this.#checkNode()
    this.#started()
  }

  /** The first fault, and how old what it keeps from being newer is. ServiceCIDRs may be missing. */
  #error(): string {
    const needed = [this.#services, this.#slices, this.#node]
    const failing = needed.find(reader => reader?.reflector.error)?.reflector
    if (failing === undefined) return ''
    const { error, resource, synced, lastDataAt } = failing
    if (!synced || lastDataAt === undefined) return error
    const time = new Date(lastDataAt).toISOString().slice(11, 19)
    return `${error}; serving ${resource} as of ${time}Z`
  }
}
