import { ownBindsOf } from '../../own-binds.ts'
import type { Bind, RelayListener } from '../../relay.ts'
import type { Order } from '../orders.ts'

interface Sent {
  readonly now: readonly Bind[]
  /** What it had before, which is to be taken back. */
  readonly before: readonly Bind[]
}

/** The addresses of UDP listeners that workers know; see `OwnBinds`. */
export class OwnBindsBook {
  readonly #post: (order: Order) => void
  readonly #sent = new Map<string, Sent>()

  constructor(post: (order: Order) => void) {
    this.#post = post
  }

  /** A listener is new or changed; `settle` is to follow when all are added. */
  add(spec: RelayListener): void {
    const added = ownBindsOf(spec)
    const { now, before } = this.#sent.get(spec.id) ?? none
    if (added.length + now.length + before.length === 0) return
    this.#sent.set(spec.id, { now: added, before: [...before, ...now] })
    if (added.length > 0) this.#post({ kind: 'own-binds', added, removed: [] })
  }

  /** Takes back what it had before; everything, if it is gone. */
  settle(id: string, isGone: boolean): void {
    const { now, before } = this.#sent.get(id) ?? none
    const removed = isGone ? [...before, ...now] : before
    if (isGone) this.#sent.delete(id)
    else if (before.length > 0) this.#sent.set(id, { now, before: [] })
    if (removed.length > 0) this.#post({ kind: 'own-binds', added: [], removed })
  }

  /** For a worker that knows nothing. */
  all(): readonly Bind[] {
    return [...this.#sent.values()].flatMap(({ now, before }) => now.concat(before))
  }
}

const none: Sent = { now: [], before: [] }
