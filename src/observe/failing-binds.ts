import type { Bind, BindState } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'

type Failed = Extract<BindState, { state: 'failed' }>

/**
 * The relay tries again at least every 10 s and says so each time; a bind that it has
 * given up says nothing, and is forgotten.
 */
const forgetAfterMs = 25_000

/**
 * The binds that fail now, from what the relay says of each try: to ask the relay for the
 * state of 10 000 listeners would cost a probe of the health server 10 ms and more.
 */
export class FailingBinds {
  readonly #clock: Clock
  /** Those heard of last are at the end. */
  readonly #failed = new Map<string, { readonly state: Failed; readonly at: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  changed(listener: string, state: BindState): void {
    const key = keyOf(listener, state.bind)
    this.#failed.delete(key)
    this.#forget()
    if (state.state === 'failed') this.#failed.set(key, { state, at: this.#clock.now() })
  }

  has(listener: string, bind: Bind): boolean {
    this.#forget()
    return this.#failed.has(keyOf(listener, bind))
  }

  states(): readonly BindState[] {
    this.#forget()
    return [...this.#failed.values()].map(({ state }) => state)
  }

  #forget(): void {
    const now = this.#clock.now()
    for (const [key, { at }] of this.#failed) {
      if (now - at < forgetAfterMs) break
      this.#failed.delete(key)
    }
  }
}

const keyOf = (listener: string, { address, port }: Bind): string =>
  `${listener} ${joinHostPort(address, port)}`
