import type { Backend } from './front.ts'
import type { Attempt } from './cause.ts'
import { noVerdict } from './early-close.ts'
import type { RelayLimits } from './relay.ts'
import type { GiveUpCause } from './retry-plan.ts'
import type { EndpointPlaces } from './shared-places.ts'

/** Who dials for connections of a kind: its sockets, timers and descriptors. */
export interface Dialler<B extends Backend, Connection> {
  readonly limits: Pick<RelayLimits, 'dialLadder'>
  readonly random: () => number
  readonly fds: { take(count: number): boolean; release(count: number): void }
  now(): number
  /** The address of the client, where the balancer uses it. */
  clientOf(connection: Connection): string
  acceptedAt(connection: Connection): number
  /** It has waited since then for an endpoint to come back, or for a place at one. */
  waited(connection: Connection, what: 'heldMs' | 'queuedMs', since: number): void
  /** Calls `Dial.timer` after `ms`, in place of what was set before. */
  setTimer(connection: Connection, ms: number): void
  clearTimer(connection: Connection): void
  /** Starts an attempt; what comes of it goes to `Dial.won` or `Dial.lost`. */
  connect(attempt: DialAttempt<B, Connection>): void
  close(fd: number): void
  /** Whether the client has ended its side, and has sent nothing. */
  hasLeft(connection: Connection): boolean
  /** No endpoint could be connected to, or (`CC`) the client did not wait for it. */
  gaveUp(connection: Connection, cause: GiveUpCause, detail: string): void
}

/** Is notified of how an attempt has ended. */
export interface AttemptOwner<Own> {
  won(attempt: Own): void
  lost(attempt: Own, code: string): void
}

/** One dial attempt, for the record too. */
export class DialAttempt<B extends Backend, Connection> {
  readonly connection: Connection
  /** Undefined when it is settled: events of its socket are not for the dial then. */
  dial: AttemptOwner<DialAttempt<B, Connection>> | undefined
  readonly backend: B
  readonly startedAt: number
  /** A descriptor, or the negative errno of a connect that failed at once. */
  socket: number | undefined = undefined
  /** It is connected, and has been asked for TLS. */
  hasAskedTls = false
  /** Where it has taken a place. */
  readonly places: EndpointPlaces | undefined
  /** As `Attempt.result` of the contract; `pending` while it is under way. */
  result = 'pending'
  /** Milliseconds from its start to its result. */
  ms = 0
  /** Of one that was not served: how many bytes its client had sent by then; see early-close.ts. */
  unservedAfter = noVerdict

  constructor(
    connection: Connection,
    dial: AttemptOwner<DialAttempt<B, Connection>>,
    backend: B,
    now: number,
  ) {
    this.connection = connection
    this.dial = dial
    this.backend = backend
    this.startedAt = now
    this.places = backend.places
  }
}

/** For the record of a connection: plain data. */
export const attemptRecords = (
  attempts: readonly Pick<DialAttempt<Backend, unknown>, 'backend' | 'result' | 'ms'>[],
): readonly Attempt[] =>
  attempts.map(({ backend, result, ms }) => ({ endpoint: backend.key, result, ms }))

/**
 * The attempts of a dial, those that are over too, and what the ones under way have taken.
 *
 * The connection has paid for one descriptor of the backend's side; attempts that overlap pay
 * for themselves and are left out while there are none to spare.
 */
export class Attempts<B extends Backend, Connection> {
  readonly #dialler: Dialler<B, Connection>
  #all: DialAttempt<B, Connection>[]
  /** Under way. */
  #pending = 0
  /** Descriptors taken beyond the one that the connection has paid for. */
  #extraFds = 0

  constructor(dialler: Dialler<B, Connection>, before: DialAttempt<B, Connection>[]) {
    this.#dialler = dialler
    this.#all = before
  }

  /** For the record; those of the connection's dials before this one come first. */
  get all(): DialAttempt<B, Connection>[] {
    return this.#all
  }

  /** Forgets those after the first `count`. */
  keepFirst(count: number): void {
    if (this.#all.length > count) this.#all.length = count
  }

  get isAnyPending(): boolean {
    return this.#pending > 0
  }

  /** False: there is no descriptor for it; its place is given back. */
  begin(
    connection: Connection,
    owner: AttemptOwner<DialAttempt<B, Connection>>,
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
    // Most dials have one: an array that grows has room for 17.
    if (this.#all.length === 0) this.#all = [attempt]
    else this.#all.push(attempt)
    this.#pending += 1
    dialler.connect(attempt)
    return true
  }

  /** Notes how one has ended whose socket is closed, or connected; gives back what it had taken. */
  settle(attempt: DialAttempt<B, Connection>, result: string): void {
    attempt.dial = undefined
    attempt.result = result
    attempt.ms = this.#dialler.now() - attempt.startedAt
    this.#pending -= 1
    this.#giveBackFds()
    // Last: it may be another client's turn now. What has connected keeps its place until it ends.
    if (result !== 'connected') attempt.places?.free()
  }

  /** Closes those under way. Silent for a step is the endpoint's fault: `silent` is called with it. */
  endAll(result: 'lost' | 'timeout' | 'cancelled', silent: (backend: B) => void): void {
    const [firstStep = 0] = this.#dialler.limits.dialLadder
    if (this.#pending === 0) return
    for (const attempt of this.#all) {
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
