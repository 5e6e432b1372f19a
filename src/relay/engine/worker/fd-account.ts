import type { EventLoop } from '../event-loop.ts'
import type { Syscalls } from '../../../ffi/syscalls.ts'
import type { Descriptors } from '../shared/descriptors.ts'

/** Each TCP connection holds one descriptor for the client and one for the backend. */
export const fdsPerConnection = 2

/** How often a paused worker checks whether others have given descriptors back. */
export const recheckMs = 50

/**
 * A worker's descriptors: the budget they come from, and closing them. Near its end the
 * worker stops accepting, so that clients wait in the kernel's queue.
 */
export class FdAccount {
  readonly #calls: Pick<Syscalls, 'close'>
  readonly #loop: Pick<EventLoop, 'closing'>
  readonly #descriptors: Descriptors
  readonly #changed: (exhausted: boolean) => void
  #exhausted = false

  /** `changed` is called when the budget runs out, and when it is comfortable again. */
  constructor(
    calls: Pick<Syscalls, 'close'>,
    loop: Pick<EventLoop, 'closing'>,
    descriptors: Descriptors,
    changed: (exhausted: boolean) => void,
  ) {
    this.#calls = calls
    this.#loop = loop
    this.#descriptors = descriptors
    this.#changed = changed
  }

  get spendable(): number {
    return this.#descriptors.spendable
  }

  /** How many share the descriptors. */
  get workers(): number {
    return this.#descriptors.workers
  }

  get exhausted(): boolean {
    return this.#exhausted
  }

  /** Takes `count` descriptors from the budget, or none and answers false. */
  take(count: number): boolean {
    const taken = this.#descriptors.take(count)
    if (!taken) this.exhaust()
    return taken
  }

  release(count: number): void {
    this.#descriptors.release(count)
    if (this.#exhausted) this.recheck()
  }

  /** The kernel said EMFILE, ENFILE or ENOBUFS before the budget's end. */
  exhaust(): void {
    if (this.#exhausted) return
    this.#exhausted = true
    this.#descriptors.wait(true)
    this.#changed(true)
  }

  /** Goes on accepting if there is room, which others may have made. */
  recheck(): void {
    if (!this.#exhausted || !this.#descriptors.has(this.#comfortable)) return
    this.#exhausted = false
    this.#descriptors.wait(false)
    this.#changed(false)
  }

  /**
   * So many are left when accepting goes on: the gap keeps it from flapping with every
   * connection that ends. Of a worker's share it is a quarter at most, or a connection's.
   */
  get #comfortable(): number {
    const { spendable, share } = this.#descriptors
    return Math.max(fdsPerConnection, Math.min(64, spendable >> 4, share >> 2))
  }

  /** A descriptor that was just opened by this thread, or given to it. */
  opened(fd: number): void {
    this.#descriptors.opened(fd)
  }

  /** It has another owner from now on. */
  gaveAway(fd: number): void {
    this.#descriptors.closing(fd)
  }

  /** See `EventLoop.closing`. */
  close(fd: number): void {
    this.#loop.closing(fd)
    this.#descriptors.closing(fd)
    // Linux closes the descriptor whatever it answers (close(2)).
    this.#calls.close(fd)
  }
}
