import type { RelayListener } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'

/** A ServicePort that is paused: its new TCP clients wait. */
export interface Pause {
  /** `namespace/name:port`, of the ServicePorts of that name in all families. */
  readonly name: string
  /** Epoch milliseconds. */
  readonly since: number
  /** When it ends by itself, in epoch milliseconds; undefined: when it is resumed. */
  readonly until: number | undefined
  /** Open connections are reset, too. */
  readonly reset: boolean
}

export interface PausesDeps {
  readonly clock: Clock
  /** Epoch milliseconds. Default: Date.now. */
  readonly epoch?: () => number
  /** One has ended by itself, and why; its clients are to be served soon. */
  readonly ended: (name: string, why: string) => void
}

interface Held extends Pause {
  readonly timer: Timer | undefined
  /** What was made of listeners, so that one that did not change is the same object. */
  readonly made: WeakMap<RelayListener, RelayListener>
}

/** Which ServicePorts are paused. Known to this process alone, and forgotten at its end. */
export class Pauses {
  readonly #deps: PausesDeps
  readonly #byName = new Map<string, Held>()

  constructor(deps: PausesDeps) {
    this.#deps = deps
  }

  get(name: string): Pause | undefined {
    return this.#byName.get(name)
  }

  all(): readonly Pause[] {
    return [...this.#byName.values()]
  }

  /**
   * Pauses `name` for `ms` milliseconds, or until it is resumed. One that is paused goes on being
   * so, with the new end. Takes effect when `apply` is next called.
   */
  pause(name: string, { reset, ms }: { reset: boolean; ms: number | undefined }): void {
    const { clock, epoch = Date.now } = this.#deps
    const now = epoch()
    const before = this.#byName.get(name)
    clock.clearTimeout(before?.timer)
    this.#byName.set(name, {
      name,
      since: before?.since ?? now,
      until: ms === undefined ? undefined : now + ms,
      reset,
      timer:
        ms === undefined
          ? undefined
          : clock.setTimeout(() => this.#end(name, 'its time is over'), ms),
      made: new WeakMap(),
    })
  }

  /** Whether it was paused. */
  resume(name: string): boolean {
    this.#deps.clock.clearTimeout(this.#byName.get(name)?.timer)
    return this.#byName.delete(name)
  }

  /** The listeners as they are to be applied. A pause of what is not there any more is forgotten. */
  apply(listeners: readonly RelayListener[]): readonly RelayListener[] {
    if (this.#byName.size === 0) return listeners
    const gone = new Set(this.#byName.keys())
    const applied = listeners.map(listener => {
      const held = listener.protocol === 'TCP' && this.#byName.get(listener.name)
      if (!held) return listener
      gone.delete(listener.name)
      return pausedListener(listener, held)
    })
    for (const name of gone) this.#end(name, 'it is gone')
    return applied
  }

  close(): void {
    for (const { name } of this.all()) this.resume(name)
  }

  #end(name: string, why: string): void {
    if (this.resume(name)) this.#deps.ended(name, why)
  }
}

const pausedListener = (
  listener: RelayListener,
  { reset, made }: Held,
): RelayListener => {
  const known = made.get(listener)
  if (known !== undefined) return known
  const paused = { ...listener, paused: true, ...(reset && { cut: 'all' as const }) }
  made.set(listener, paused)
  return paused
}
