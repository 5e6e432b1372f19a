import { bindKey } from '../counters.ts'
import type { BindState } from '../relay.ts'
import type { News } from './messages.ts'

/** What has become of each bind, from what the data plane has said. */
export class KnownBinds {
  readonly #states = new Map<string, News['binds'][number]>()

  changed(listener: string, state: BindState): void {
    const key = `${listener} ${bindKey(state.bind)}`
    // It is closed on purpose, whatever the process does.
    if (state.state === 'closed') this.#states.delete(key)
    else this.#states.set(key, [listener, state])
  }

  /** The process that held them is gone: those that are lost with it, now being bound. */
  *lost(): Generator<readonly [listener: string, state: BindState]> {
    for (const [key, [listener, { bind, state }]] of this.#states) {
      if (state === 'binding') continue
      const now = [listener, { bind, state: 'binding' }] as const
      this.#states.set(key, now)
      yield now
    }
  }
}
