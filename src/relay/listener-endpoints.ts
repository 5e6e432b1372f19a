import { Balancer } from '../balance/balancer.ts'
import {
  afterReply,
  afterSilence,
  isAnswering,
  replyClients,
} from '../balance/replies.ts'
import { afterAnswer, afterUnserved, isInDoubt } from '../balance/doubts.ts'
import { hashText } from '../balance/hash-text.ts'
import { noKeys } from '../balance/pool.ts'
import { noCooldown } from '../balance/cooldown.ts'
import type { ConnectionAges, RetryOptions } from '../model/traffic.ts'
import type { AddressRanges } from '../util/address-ranges.ts'
import type { ProxyVersion } from '../util/proxy-header.ts'
import type { Clock } from '../util/clock.ts'
import type { CapacityMemory } from './counted-endpoints.ts'
import type { Counters } from './counters.ts'
import { EndpointCapacity, type Queues } from './endpoint-capacity.ts'
import type { ConnectionLimiter } from './connection-limiter.ts'
import { latestEndMs } from './flow-limits.ts'
import { type Choice, Fronts, type Backend } from './front.ts'
import { holdsClients } from './open-fronts.ts'
import { PrefaceRules } from './preface.ts'
import type { NodeClientSet } from './node-clients.ts'
import type { RelayEndpoint, RelayLimits, RelayListener } from './relay.ts'
import type { SharedPlaces } from './shared-places.ts'

/** How long others are preferred to an endpoint: what it costs to find out anew decides. */
export const cooldownMs = { refused: 1000, silent: 10_000, unserved: 1000 }

const usualMostHeld = 256
/** How long clients of a paused listener wait that has no hold of its own. */
const pausedHoldMs = 60_000

/** Thousands of clients a second may find that all endpoints fail: it is reported this often. */
const allFailedEveryMs = 1000

/** The longest cooldown, where early closes or replies count: there an endpoint can fail again and again. */
const longestCooldownMs = 60_000

/** How long a client may take to send something that tries an endpoint for its answer. */
const firstBytesWithinMs = 1000

/** Most listeners have none: one for all of them. */
const none: ReadonlyMap<string, never> = new Map<string, never>()

/** Whether connections count that endpoints accept and do not serve, or flows that have no reply. */
export const countsUnserved = ({ protocol, retry }: RelayListener): boolean =>
  protocol === 'TCP'
    ? retry?.earlyClose === true || retry?.answerMs !== undefined
    : retry?.expectsReplies === true

/** Where a listener's clients may go: its endpoints, whose turn it is, and who may connect. */
export abstract class ListenerEndpoints<B extends Backend> {
  readonly balancer: Balancer<B>
  readonly fronts: Fronts<B>
  readonly capacity: EndpointCapacity<B>
  readonly counters: Counters
  /** What is done for clients of an endpoint that accepts and does not serve. */
  retry: RetryOptions | undefined
  ages: ConnectionAges | undefined
  /** By which its endpoints get the addresses of their clients; undefined: they do not. */
  proxyProtocol: ProxyVersion | undefined
  /** What is read of its clients before an endpoint is chosen; undefined: nothing. */
  preface: PrefaceRules | undefined
  /** Whose connections are closed in order; undefined: nobody's. */
  probers: readonly AddressRanges[] | undefined
  /** Rules of the kernel bring clients to it. */
  isSteered = false
  /** Undefined: any number of connections is taken. */
  limiter: ConnectionLimiter | undefined
  /** Clients wait, and nothing is dialled for them. */
  paused = false
  /** It goes, or the process does: no order comes any more that would end a pause. */
  ends = false
  /** Undefined until clients may wait. */
  protected places: SharedPlaces | undefined
  readonly #limits: Pick<RelayLimits, 'udpReplyTimeout' | 'tcpIdleTimeout'>
  readonly #clock: Pick<Clock, 'now'>
  #allFailedReportedAt = -Infinity
  /** Of `RelayListener.staying` those that were listed before. */
  #staying: ReadonlyMap<string, B> = none
  /** All of them. */
  #mayStay: readonly string[] = []
  /** Those that are listed and get no new connections. */
  #drained: ReadonlyMap<string, B> = none
  /** Keys of endpoints whose flows are to end, too. */
  #closing: ReadonlySet<string> = noKeys

  constructor(
    clock: Pick<Clock, 'now'>,
    random: () => number,
    nodeClients: NodeClientSet,
    limits: Pick<RelayLimits, 'udpReplyTimeout' | 'tcpIdleTimeout'>,
    queues: Queues,
    counters: Counters,
  ) {
    this.counters = counters
    this.#limits = limits
    this.#clock = clock
    this.balancer = new Balancer(clock, random)
    this.fronts = new Fronts(this.balancer, nodeClients)
    this.capacity = new EndpointCapacity(this.balancer, queues)
  }

  /** That of a flow which another process had: where `mayKeep` does not hold, the flow is to go elsewhere. */
  backendOfAdopted(endpoint: RelayEndpoint, make: (endpoint: RelayEndpoint) => B): B {
    const known = this.#known(endpoint.key)
    if (known !== undefined) return known
    const made = make(endpoint)
    if (this.#mayStay.includes(endpoint.key))
      this.#staying = new Map([...this.#staying, [endpoint.key, made]])
    return made
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: B): boolean {
    const { key } = backend
    return this.#known(key) === backend && !this.#closing.has(key)
  }

  /** With those that are drained. */
  get listed(): readonly B[] {
    const { endpoints } = this.balancer
    return this.#drained.size === 0
      ? endpoints
      : [...endpoints, ...this.#drained.values()]
  }

  listedAt(key: string): B | undefined {
    return this.balancer.get(key) ?? this.#drained.get(key)
  }

  /**
   * An endpoint refused or was silent: for `ms` milliseconds, or longer, others are preferred.
   * `reason`: for people.
   */
  failed(backend: B, ms: number, reason: string): void {
    this.noteFailure(backend, reason)
    backend.doubts?.change(afterAnswer)
    this.#coolDown(backend, ms)
  }

  /** To be seen; it changes nothing. */
  noteFailure(backend: B, reason: string): void {
    backend.failures += 1
    backend.lastFailure = { reason, at: this.#clock.now() }
  }

  /**
   * A connection was not served by an endpoint that has accepted it. `client`: its address;
   * undefined where that is no client's doing. See early-close.ts.
   */
  unserved(backend: B, client: string | undefined): void {
    const { doubts } = backend
    const now = this.#clock.now()
    const hash = client === undefined ? undefined : hashText(client)
    if (!doubts?.change(before => afterUnserved(before, hash, now))) return
    if (isInDoubt(doubts.read())) this.#coolDown(backend, cooldownMs.unserved)
  }

  /** Whether other endpoints have had answers in the time that `backend` had for one. */
  othersAnswer(backend: B): boolean {
    const since = this.#clock.now() - (this.retry?.answerMs ?? 0)
    const { endpoints } = this.balancer
    return endpoints.some(one => one !== backend && (one.servedAt ?? -Infinity) >= since)
  }

  #coolDown(backend: B, ms: number): void {
    const { earlyClose, answerMs, expectsReplies } = this.retry ?? {}
    const doubles = earlyClose || answerMs !== undefined || expectsReplies
    this.balancer.failed(backend, ms, doubles ? longestCooldownMs : 0)
    // Its name may lead elsewhere by now, and strangers answer where it led.
    this.allFailed()
  }

  /** A connection or flow now goes to `backend`. */
  connected(client: string, backend: B): void {
    this.balancer.connected(client, backend)
    const { earlyClose, answerMs } = this.retry ?? {}
    const isToServe = earlyClose || answerMs !== undefined || this.#isToReply(backend)
    if (!isToServe) this.served(backend)
  }

  /**
   * Whether only a reply shows that an endpoint serves: of one that has failed not where none of
   * them ever replied.
   */
  #isToReply({ replies, cooldown }: B): boolean {
    if (replies === undefined) return false
    const { endpoints } = this.balancer
    return cooldown.read() === noCooldown || endpoints.some(one => one.replies?.read().at)
  }

  /** A UDP flow of `client` has had its first reply from `backend`. */
  answered(backend: B, client: string): void {
    const { replies } = backend
    if (replies === undefined) return
    const now = this.#clock.now()
    const hash = hashText(client)
    replies.change(before => afterReply(before, hash, now))
    this.served(backend)
  }

  /** A UDP flow got no reply to what `client` wrote last, at `sentAt`, and has ended of that. */
  unanswered(backend: B, client: string, sentAt: number): void {
    const { replies, doubts } = backend
    if (replies === undefined || doubts === undefined) return
    replies.change(afterSilence)
    if (sentAt < replies.read().at) return
    const hash = hashText(client)
    const isAnswered = (): boolean => this.#othersReply(backend, hash % replyClients)
    doubts.change(before => afterUnserved(before, hash, sentAt, isAnswered))
    if (!isInDoubt(doubts.read())) return
    // Where all are silent it is no worse than the others.
    if (!this.#othersReply(backend)) return this.served(backend)
    this.noteFailure(backend, 'no reply')
    this.#coolDown(backend, cooldownMs.silent)
  }

  /** Whether another endpoint has replied, last of all to `client` if given, since `backend` is silent. */
  #othersReply(backend: B, client?: number): boolean {
    const since = backend.doubts?.read().since ?? 0
    return this.balancer.endpoints.some(other => {
      const replies = other.replies?.read()
      if (other === backend || replies === undefined) return false
      if (other.doubts?.read().clients !== 0) return false
      return isAnswering(replies, since) && replies.client === (client ?? replies.client)
    })
  }

  /** Where early closes, answers or replies count, a connection or flow has shown that it is served. */
  served(backend: B): void {
    if (this.retry?.answerMs !== undefined) backend.servedAt = this.#clock.now()
    this.balancer.served(backend)
  }

  /** Milliseconds that a TCP connection may be idle; 0: any. */
  get idleMs(): number {
    return this.ages?.idleMs ?? this.#limits.tcpIdleTimeout
  }

  /** Milliseconds that a client may wait, from its accept on; 0: it does not. */
  get holdMs(): number {
    const { holdMs = 0 } = this.retry ?? {}
    if (!this.paused) return holdMs
    return this.ends ? 0 : holdMs || pausedHoldMs
  }

  /** An endpoint, or all that a client might get, has failed: reported to the observer. */
  allFailed(): void {
    // Then nothing was dialled.
    if (this.paused) return
    const now = this.#clock.now()
    if (now - this.#allFailedReportedAt < allFailedEveryMs) return
    this.#allFailedReportedAt = now
    this.reportAllFailed()
  }

  protected abstract reportAllFailed(): void

  /** Whether one client more may wait for an endpoint; if so, `unhold` is to be called. */
  hold(): boolean {
    return this.places?.take(this.#mostHeld) ?? false
  }

  /** What `hold` would return now. */
  get mayHold(): boolean {
    return this.places?.has(this.#mostHeld) ?? false
  }

  get #mostHeld(): number {
    return this.retry?.mostHeld ?? usualMostHeld
  }

  unhold(): void {
    this.places?.free()
  }

  /** `explainPick` counts times from then. */
  get now(): number {
    return this.#clock.now()
  }

  /** Whether there are endpoints for a client beyond those with the keys `unserved`. */
  hasOther(choice: Choice<B>, unserved: ReadonlySet<string>): boolean {
    const among = choice.among ?? this.balancer
    let left = among.size
    for (const key of unserved) if (among.get(key) !== undefined) left -= 1
    return left > 0
  }

  /**
   * Takes over what is wanted now. `backendOf` answers with the backend of a listed endpoint:
   * `known`, with its figures, where there is one.
   */
  protected takeEndpoints(
    spec: RelayListener,
    backendOf: (endpoint: RelayEndpoint, index: number, known: B | undefined) => B,
    counted?: CapacityMemory,
  ): void {
    this.capacity.take(spec.capacity, counted)
    const backends = spec.endpoints.map((endpoint, i) => {
      const backend = backendOf(endpoint, i, this.#known(endpoint.key))
      backend.tier = endpoint.tier
      backend.weight = endpoint.weight
      backend.places = this.capacity.placesOf(backend, i)
      return backend
    })
    this.#staying = this.#stayingOf(spec)
    this.#mayStay = spec.staying ?? []
    const { by, slowStartMs } = spec.balance ?? {}
    this.balancer.setBalance(by, slowStartMs)
    this.balancer.setEndpoints(this.#takeDrained(spec, backends))
    this.balancer.setAffinity(spec.affinityMs)
    this.retry = spec.retry
    this.ages = spec.ages
    this.proxyProtocol = spec.proxyProtocol
    this.isSteered = (spec.steered?.length ?? 0) > 0
    this.balancer.replyMs = this.#replyMs()
    this.balancer.keepsTiers = spec.retry?.check !== undefined
    this.probers = spec.clients?.probers
    this.paused = spec.paused === true
    this.ends = false
    const { acceptProxy, serverNames } = spec
    const isPrefaced = acceptProxy !== undefined || serverNames !== undefined
    this.preface = isPrefaced ? new PrefaceRules(spec) : undefined
    this.fronts.take(spec.fronts, holdsClients(spec), spec.clients, serverNames)
    this.capacity.settle()
  }

  #replyMs(): number | undefined {
    const { answerMs, expectsReplies } = this.retry ?? {}
    if (expectsReplies) return this.#limits.udpReplyTimeout + latestEndMs
    return answerMs === undefined ? undefined : answerMs + firstBytesWithinMs
  }

  #known(key: string): B | undefined {
    return this.listedAt(key) ?? this.#staying.get(key)
  }

  /** Those that are left for new connections. */
  #takeDrained({ drained = [] }: RelayListener, backends: readonly B[]): readonly B[] {
    const keys = new Set(drained.map(({ key }) => key))
    const ending = drained.filter(({ close }) => close === 'all')
    this.#closing = new Set(ending.map(({ key }) => key))
    this.#drained = none
    if (keys.size === 0) return backends
    const apart = backends.filter(({ key }) => keys.has(key))
    this.#drained = new Map(apart.map(backend => [backend.key, backend]))
    return backends.filter(({ key }) => !keys.has(key))
  }

  /** Of the backends that were known those that are listed no more and may keep their flows. */
  #stayingOf({ endpoints, staying = [] }: RelayListener): ReadonlyMap<string, B> {
    if (staying.length === 0) return none
    const kept = new Map<string, B>()
    for (const key of staying) {
      const backend = this.#known(key)
      if (backend !== undefined) kept.set(key, backend)
    }
    for (const { key } of endpoints) kept.delete(key)
    return kept
  }
}
