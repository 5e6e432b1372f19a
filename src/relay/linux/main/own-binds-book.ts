import { ownBindsOf } from '../../own-binds.ts'
import type { Bind, RelayListener } from '../../relay.ts'
import type { Order } from '../orders.ts'

interface Told {
  readonly now: readonly Bind[]
  /** What it had before, which is to be taken back. */
  readonly before: readonly Bind[]
}

/** What workers have been told of the addresses of UDP listeners; see `OwnBinds`. */
export class OwnBindsBook {
  readonly #post: (order: Order) => void
  readonly #told = new Map<string, Told>()

  constructor(post: (order: Order) => void) {
    this.#post = post
  }

  /** A listener is new or changed; `settle` is to follow when all are added. */
  add(spec: RelayListener): void {
    const added = ownBindsOf(spec)
    const { now, before } = this.#told.get(spec.id) ?? none
    if (added.length + now.length + before.length === 0) return
    this.#told.set(spec.id, { now: added, before: [...before, ...now] })
    if (added.length > 0) this.#post({ kind: 'own-binds', added, removed: [] })
  }

  /** Takes back what it had before; everything, if it is gone. */
  settle(id: string, isGone: boolean): void {
    const { now, before } = this.#told.get(id) ?? none
    const removed = isGone ? [...before, ...now] : before
    if (isGone) this.#told.delete(id)
    else if (before.length > 0) this.#told.set(id, { now, before: [] })
    if (removed.length > 0) this.#post({ kind: 'own-binds', added: [], removed })
  }

  /** For a worker that knows nothing. */
  all(): readonly Bind[] {
    return [...this.#told.values()].flatMap(({ now, before }) => now.concat(before))
  }
}

const none: Told = { now: [], before: [] }
