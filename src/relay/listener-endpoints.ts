import { Balancer } from '../balance/balancer.ts'
import type { Clock } from '../util/clock.ts'
import type { Backend } from './backend.ts'
import { Fronts } from './front.ts'
import type { NodeClientSet } from './node-clients.ts'
import type { RelayEndpoint, RelayListener } from './relay.ts'

/** How long others are preferred to an endpoint: what it costs to find out anew decides. */
export const restMs = { refused: 1000, silent: 10_000 }

/** Most listeners have none: one for all of them. */
const none: ReadonlyMap<string, never> = new Map<string, never>()

/** Where a listener's clients may go: its endpoints, whose turn it is, and who may connect. */
export class ListenerEndpoints<B extends Backend> {
  readonly balancer: Balancer<B>
  readonly fronts: Fronts<B>
  /** Of `RelayListener.staying` those that were listed before. */
  #staying: ReadonlyMap<string, B> = none

  constructor(
    clock: Pick<Clock, 'now'>,
    random: () => number,
    nodeClients: NodeClientSet,
  ) {
    this.balancer = new Balancer(clock, random)
    this.fronts = new Fronts(random, nodeClients)
  }

  /** Whether a flow that goes there may stay: by object, for one that left is not back. */
  mayKeep(backend: B): boolean {
    return this.#known(backend.key) === backend
  }

  /** An endpoint refused or was silent: for `rest` milliseconds others are preferred. */
  failed(backend: B, rest: number): void {
    backend.failures += 1
    this.balancer.failed(backend, rest)
  }

  /** A connection or flow now goes to `backend`. */
  succeeded(client: string, backend: B): void {
    this.balancer.succeeded(client, backend)
  }

  /**
   * Takes over what is wanted now. `backendOf` answers with the backend of a listed endpoint:
   * `known`, with its figures, where there is one.
   */
  protected takeEndpoints(
    spec: RelayListener,
    backendOf: (endpoint: RelayEndpoint, index: number, known: B | undefined) => B,
  ): void {
    const backends = spec.endpoints.map((endpoint, i) =>
      backendOf(endpoint, i, this.#known(endpoint.key)),
    )
    this.#staying = this.#stayingOf(spec)
    this.balancer.setEndpoints(backends)
    this.balancer.setAffinity(spec.affinityMs)
    this.fronts.take(spec.fronts, this.balancer)
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
