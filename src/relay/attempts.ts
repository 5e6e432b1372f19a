import type { Backend } from './backend.ts'
import { type AttemptOwner, DialAttempt } from './dial-attempt.ts'
import type { Dialler } from './dialler.ts'

/**
 * The attempts of a dial, those that are over too, and what the ones under way have taken.
 *
 * The connection has paid for one descriptor of the backend's side; attempts that overlap pay
 * for themselves and are left out while there are none to spare.
 */
export class Attempts<B extends Backend, Socket, Connection> {
  /** For the record; those of the connection's dials before this one come first. */
  readonly all: DialAttempt<B, Socket, Connection>[]
  readonly #dialler: Dialler<B, Socket, Connection>
  /** Under way. */
  #pending = 0
  /** Descriptors taken beyond the one that the connection has paid for. */
  #extraFds = 0

  constructor(
    dialler: Dialler<B, Socket, Connection>,
    all: DialAttempt<B, Socket, Connection>[],
  ) {
    this.#dialler = dialler
    this.all = all
  }

  get isAnyPending(): boolean {
    return this.#pending > 0
  }

  /** False: there is no descriptor for it; its place is given back. */
  begin(
    connection: Connection,
    owner: AttemptOwner<DialAttempt<B, Socket, Connection>>,
    backend: B,
  ): boolean {
    const dialler = this.#dialler
    if (this.#pending > 0) {
      if (!dialler.fds.take(1)) {
        backend.places?.free()
        return false
      }
      this.#extraFds += 1
    }
    const attempt = new DialAttempt(connection, owner, backend, dialler.now())
    this.all.push(attempt)
    this.#pending += 1
    dialler.connect(attempt)
    return true
  }

  /** Notes how one has ended whose socket is closed, or connected; gives back what it had taken. */
  settle(attempt: DialAttempt<B, Socket, Connection>, result: string): void {
    attempt.dial = undefined
    attempt.result = result
    attempt.ms = this.#dialler.now() - attempt.startedAt
    this.#pending -= 1
    this.#giveBackFds()
    // Last: it may be another client's turn now. What has connected keeps its place until it ends.
    if (result !== 'connected') attempt.places?.free()
  }

  /** Closes those under way. Silent for a step is the endpoint's fault: `silent` hears of it. */
  endAll(result: 'lost' | 'timeout' | 'cancelled', silent: (backend: B) => void): void {
    const [firstStep = 0] = this.#dialler.limits.dialLadder
    if (this.#pending === 0) return
    for (const attempt of this.all) {
      if (attempt.dial === undefined) continue
      // First: its place may be another's at once.
      if (attempt.socket !== undefined) this.#dialler.close(attempt.socket)
      this.settle(attempt, result)
      if (attempt.ms >= firstStep) silent(attempt.backend)
    }
  }

  #giveBackFds(): void {
    if (this.#extraFds === 0) return
    const spareFds = this.#extraFds - Math.max(this.#pending - 1, 0)
    if (spareFds <= 0) return
    this.#extraFds -= spareFds
    this.#dialler.fds.release(spareFds)
  }
}
