import type { Backend } from './backend.ts'
import type { Waiting } from './connection-queue.ts'
import { noKeys } from './early-close.ts'
import type { Choice } from './front.ts'

/** A dial's waits for a place at an endpoint: all of them together last no longer than one may. */
export class QueueWait<B extends Backend> implements Waiting {
  readonly choice: unknown
  readonly #leave: (failed: ReadonlySet<string>) => boolean
  /**
   * Endpoints that failed just now. Without them one that refuses would be dialled again and again
   * with no pause, for as long as the others are full.
   */
  #failed: ReadonlySet<string> = noKeys
  /** Undefined while it does not wait. */
  #since: number | undefined
  /** Milliseconds of the waits before. */
  #before = 0

  /**
   * `left`: keys of endpoints that are not for this client, which gets no place where others do.
   * `leave`: `leaveForPlace`, but for endpoints that `failed`.
   */
  constructor(
    choice: Choice<B>,
    left: ReadonlySet<string>,
    leave: (failed: ReadonlySet<string>) => boolean,
  ) {
    this.choice =
      left.size === 0 ? choice : [choice.id, ...[...left].toSorted()].join(' ')
    this.#leave = leave
  }

  leaveForPlace(): boolean {
    return this.#leave(this.#failed)
  }

  /** A while is over. */
  forgetFailed(): void {
    this.#failed = noKeys
  }

  get since(): number | undefined {
    return this.#since
  }

  begin(now: number, failed: ReadonlySet<string>): void {
    this.#since = now
    this.#failed = failed
  }

  end(now: number): void {
    this.#before += now - (this.#since ?? now)
    this.#since = undefined
  }

  /** How many milliseconds are left of `ms`. */
  left(ms: number, now: number): number {
    return ms - this.#before - (now - (this.#since ?? now))
  }
}
