import type { Backend } from './backend.ts'
import { bindKey } from './counters.ts'
import { Front, type Listed } from './front.ts'
import type { NodeClientSet } from './node-clients.ts'
import type { RelayFront } from './relay.ts'

/** The fronts of one listener, by address. */
export class Fronts<B extends Backend = Backend> {
  readonly #make: () => Front<B>
  #byBind: ReadonlyMap<string, Front<B>> = new Map()

  constructor(random: () => number, nodeClients: NodeClientSet) {
    this.#make = () => new Front(random, nodeClients)
  }

  /** Undefined for an address that is not (or no longer) the listener's. */
  at(bind: string): Front<B> | undefined {
    return this.#byBind.get(bind)
  }

  /** A front is the same as before when it still has the first of its known addresses. */
  take(specs: readonly RelayFront[], listed: Listed<B>): void {
    const byBind = new Map<string, Front<B>>()
    const taken = new Set<Front<B>>()
    for (const spec of specs) {
      const keys = spec.binds.map(bindKey)
      const known = keys.flatMap(key => this.#byBind.get(key) ?? [])
      const front = known.find(one => !taken.has(one)) ?? this.#make()
      taken.add(front)
      front.take(spec, listed)
      for (const key of keys) byBind.set(key, front)
    }
    this.#byBind = byBind
  }
}
