import type { Backend } from './backend.ts'
import { bindKey } from './counters.ts'
import { Front } from './front.ts'
import type { Bind, BindState, RelayFront } from './relay.ts'

/** The fronts of one listener, by address. */
export class Fronts<B extends Backend = Backend> {
  readonly #make: () => Front<B>
  #byBind: ReadonlyMap<string, Front<B>> = new Map()
  #open: readonly Bind[] = []
  #closed: readonly BindState[] = []

  constructor(random: () => number, isFromNode: (address: string) => boolean) {
    this.#make = () => new Front(random, isFromNode)
  }

  /** The addresses to listen on. */
  get open(): readonly Bind[] {
    return this.#open
  }

  /** Those to close, and why. */
  get closed(): readonly BindState[] {
    return this.#closed
  }

  /** Undefined for an address that is not (or no longer) the listener's. */
  at(bind: string): Front<B> | undefined {
    return this.#byBind.get(bind)
  }

  /** A front is the same as before when it still has the first of its known addresses. */
  take(specs: readonly RelayFront[], listed: ReadonlyMap<string, B>): void {
    const byBind = new Map<string, Front<B>>()
    const open: Bind[] = []
    const closed: BindState[] = []
    const taken = new Set<Front<B>>()
    for (const spec of specs) {
      const keys = spec.binds.map(bindKey)
      const known = keys.flatMap(key => this.#byBind.get(key) ?? [])
      const front = known.find(one => !taken.has(one)) ?? this.#make()
      taken.add(front)
      front.take(spec, listed)
      for (const key of keys) byBind.set(key, front)
      if (front.isOpen) open.push(...spec.binds)
      else for (const bind of spec.binds) closed.push(closedState(bind, spec))
    }
    this.#byBind = byBind
    this.#open = open
    this.#closed = closed
  }
}

const closedState = (bind: Bind, { closedReason: reason }: RelayFront): BindState => ({
  bind,
  state: 'closed',
  reason,
})
