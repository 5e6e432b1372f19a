import { Balancer } from '../balance/balancer.ts'
import type { RetryOptions } from '../model/service.ts'
import type { Clock } from '../util/clock.ts'
import type { Backend } from './backend.ts'
import { type Choice, Fronts } from './front.ts'
import { holdsClients } from './open-fronts.ts'
import type { NodeClientSet } from './node-clients.ts'
import type { RelayEndpoint, RelayListener } from './relay.ts'

/** How long others are preferred to an endpoint: what it costs to find out anew decides. */
export const restMs = { refused: 1000, silent: 10_000, closedEarly: 1000 }

const usualMostHeld = 256

/** Where early closes count, so that an endpoint can fail again and again: the longest rest. */
const longestRestMs = 60_000

/** Most listeners have none: one for all of them. */
const none: ReadonlyMap<string, never> = new Map<string, never>()

/** Where a listener's clients may go: its endpoints, whose turn it is, and who may connect. */
export class ListenerEndpoints<B extends Backend> {
  readonly balancer: Balancer<B>
  readonly fronts: Fronts<B>
  /** What is done for clients of an endpoint that accepts and does not serve. */
  retry: RetryOptions | undefined
  /** Clients that wait for an endpoint to come back, of those that may. */
  #held = 0
  readonly #workers: number
  /** Of `RelayListener.staying` those that were listed before. */
  #staying: ReadonlyMap<string, B> = none

  /** `workers`: how many share what there is of a kind. */
  constructor(
    clock: Pick<Clock, 'now'>,
    random: () => number,
    nodeClients: NodeClientSet,
    workers = 1,
  ) {
    this.#workers = workers
    this.balancer = new Balancer(clock, random)
    this.fronts = new Fronts(this.balancer, nodeClients)
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: B): boolean {
    return this.#known(backend.key) === backend
  }

  /**
   * An endpoint refused, was silent or closed early: for `rest` milliseconds, or longer, others
   * are preferred. Until when that is.
   */
  failed(backend: B, rest: number): number {
    backend.failures += 1
    return this.balancer.failed(backend, rest, this.retry?.earlyClose ? longestRestMs : 0)
  }

  /** A connection or flow now goes to `backend`. */
  connected(client: string, backend: B): void {
    this.balancer.connected(client, backend)
    if (!this.retry?.earlyClose) this.served(backend)
  }

  /** Where early closes count, a connection has shown that it is not one. */
  served(backend: B): void {
    this.balancer.served(backend)
  }

  /** Whether one client more may wait for an endpoint; if so, `unhold` is to be called. */
  hold(): boolean {
    const most = this.retry?.mostHeld ?? usualMostHeld
    if (this.#held >= Math.max(1, Math.floor(most / this.#workers))) return false
    this.#held += 1
    return true
  }

  unhold(): void {
    this.#held -= 1
  }

  /** Whether there are endpoints for a client beyond those with the keys `closedEarly`. */
  hasOther(choice: Choice<B>, closedEarly: ReadonlySet<string>): boolean {
    const among = choice.among ?? this.balancer
    let left = among.size
    for (const key of closedEarly) if (among.get(key) !== undefined) left -= 1
    return left > 0
  }

  /**
   * Takes over what is wanted now. `backendOf` answers with the backend of a listed endpoint:
   * `known`, with its figures, where there is one.
   */
  protected takeEndpoints(
    spec: RelayListener,
    backendOf: (endpoint: RelayEndpoint, index: number, known: B | undefined) => B,
  ): void {
    const backends = spec.endpoints.map((endpoint, i) => {
      const backend = backendOf(endpoint, i, this.#known(endpoint.key))
      backend.tier = endpoint.tier
      return backend
    })
    this.#staying = this.#stayingOf(spec)
    this.balancer.setEndpoints(backends)
    this.balancer.setAffinity(spec.affinityMs)
    this.retry = spec.retry
    this.fronts.take(spec.fronts, holdsClients(spec.retry))
  }

  #known(key: string): B | undefined {
    return this.balancer.get(key) ?? this.#staying.get(key)
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
