import type { KeySet } from '../balance/round-robin.ts'
import { isOutOfResources } from '../util/error-code.ts'
import type { Backend } from './backend.ts'
import { countUnserved, noKeys, unservedKeys } from './early-close.ts'
import type { Choice } from './front.ts'
import { type ListenerEndpoints, restMs } from './listener-endpoints.ts'
import type { Attempt, RelayLimits } from './relay.ts'
import { type GiveUpCause, type NextStep, RetryPlan } from './retry-plan.ts'

/** Who dials for connections of a kind: its sockets, timers and descriptors. */
export interface Dialler<B extends Backend, Socket, Connection> {
  readonly limits: Pick<RelayLimits, 'dialLadder'>
  readonly random: () => number
  readonly fds: { take(count: number): boolean; release(count: number): void }
  now(): number
  /** The address of the client, where the balancer looks at it. */
  clientOf(connection: Connection): string
  acceptedAt(connection: Connection): number
  /** Calls `Dial.timer` after `ms`, in place of what was set before. */
  setTimer(connection: Connection, ms: number): void
  clearTimer(connection: Connection): void
  /** Starts an attempt; what comes of it goes to `Dial.won` or `Dial.lost`. */
  connect(attempt: DialAttempt<B, Socket, Connection>): void
  close(socket: Socket): void
  /** Whether the client has ended its side, and has said nothing. */
  hasLeft(connection: Connection): boolean
  /** No endpoint could be connected to, or (`CC`) the client did not wait for it. */
  gaveUp(connection: Connection, cause: GiveUpCause, detail: string): void
}

/** What a dial needs of its listener. */
export type DialService<B extends Backend> = ListenerEndpoints<B> & {
  readonly counters: {
    add(counter: 'dialAttempts' | 'dialRetries' | 'holdRefused', amount: number): void
    countDialTime(ms: number): void
    countHoldTime(ms: number): void
  }
}

/** Rounds for clients that wait: each endpoint is tried once in each of them. */
const heldLadder = [250, 750]
const firstHeldPauseMs = 250
const longestHeldPauseMs = 1000
/** Attempts of one connection before a round for clients that wait. */
const mostRecorded = 32

interface Hold {
  readonly since: number
  rounds: number
  /** Where the attempts of its rounds begin. */
  readonly firstAttempt: number
  isPausing: boolean
}

/** One dial attempt, for the record too. */
export class DialAttempt<B extends Backend, Socket, Connection> {
  readonly connection: Connection
  /** Undefined when it is settled: what its socket says then is not for the dial. */
  dial: Dial<B, Socket, Connection> | undefined
  readonly backend: B
  readonly startedAt: number
  socket: Socket | undefined = undefined
  /** As `Attempt.result` of the contract; `pending` while it is under way. */
  result = 'pending'
  /** Milliseconds from its start to its result. */
  ms = 0

  constructor(dial: Dial<B, Socket, Connection>, backend: B, now: number) {
    this.connection = dial.connection
    this.dial = dial
    this.backend = backend
    this.startedAt = now
  }
}

/**
 * Dials for one accepted connection: carries out what its RetryPlan says, whatever the relay
 * dials with. Independent of accepting and of every other dial.
 *
 * The connection has paid for one descriptor of the backend's side; attempts that overlap pay
 * for themselves and are left out while there are none to spare.
 */
export class Dial<B extends Backend, Socket, Connection> {
  readonly connection: Connection
  /** Those of the connection's dials before this one come first. */
  readonly attempts: DialAttempt<B, Socket, Connection>[]
  readonly #dialler: Dialler<B, Socket, Connection>
  readonly #service: DialService<B>
  readonly #choice: Choice<B>
  readonly #startedAt: number
  /** Where the attempts of its plan begin. */
  #first: number
  /** Endpoints that have not served: not dialled again, unless the client is held. */
  #left: ReadonlySet<string>
  /** Made when the first attempt has failed or takes long: most dials need none. */
  #planMade: RetryPlan<B> | undefined
  /** Attempts under way. */
  #pending = 0
  /** Descriptors taken beyond the one that the connection has paid for. */
  #extraFds = 0
  /** Set while the client waits for an endpoint to come back. */
  #hold: Hold | undefined
  #lastError = ''
  /** It should have waited, and too many did. */
  #isOneTooMany = false

  constructor(
    dialler: Dialler<B, Socket, Connection>,
    connection: Connection,
    service: DialService<B>,
    choice: Choice<B>,
    attempts: DialAttempt<B, Socket, Connection>[] = [],
  ) {
    this.#dialler = dialler
    this.connection = connection
    this.#service = service
    this.#choice = choice
    this.#startedAt = dialler.now()
    this.attempts = attempts
    this.#first = attempts.length
    this.#left = unservedKeys(attempts)
  }

  start(): void {
    if (this.#service.paused) return this.#giveUp()
    // None is left, but the client may wait: see early-close.ts.
    if (this.#left.size > 0 && !this.#service.hasOther(this.#choice, this.#left)) {
      this.#lastError = 'each endpoint closed early or had no answer'
      return this.#giveUp()
    }
    const endpoint = this.#pick()
    const [ms] = this.#dialler.limits.dialLadder
    if (endpoint === undefined || ms === undefined) {
      return this.#follow(this.#plan.start(this.#startedAt))
    }
    this.#follow({ action: 'dial', endpoint, ms })
  }

  /** The time of a step is over. */
  timer(): void {
    const hold = this.#hold
    if (hold === undefined) return this.#follow(this.#plan.timer(this.#dialler.now()))
    if (this.#dialler.hasLeft(this.connection)) return this.#clientLeft()
    if (hold.isPausing && this.#service.paused) this.#giveUp()
    else if (hold.isPausing) this.#startRound(hold)
    else this.#follow(this.#plan.timer(this.#dialler.now()))
  }

  /** The client has ended its side: one that is held and has said nothing does not wait. */
  clientEnded(): void {
    if (this.#hold !== undefined && this.#dialler.hasLeft(this.connection))
      this.#clientLeft()
  }

  /** The listener has been paused: attempts under way come to nothing, and the client waits. */
  pause(): void {
    if (this.#hold?.isPausing !== true) this.#giveUp()
  }

  /** Endpoints that are to have no connections: attempts under way there come to nothing. */
  cut(endpoints: KeySet): void {
    for (const attempt of this.attempts) {
      const { dial, backend, socket } = attempt
      if (dial !== this || !endpoints.has(backend.key)) continue
      const plan = this.#plan
      this.#settle(attempt, 'cancelled')
      if (socket !== undefined) this.#dialler.close(socket)
      this.#follow(plan.failed(backend.key, this.#dialler.now()))
    }
  }

  /** The client left, or the connection is ended otherwise. */
  cancel(): void {
    this.#finish('cancelled')
  }

  /** An attempt that is under way has connected: the dial is over. */
  won(attempt: DialAttempt<B, Socket, Connection>): void {
    const client = this.#dialler.clientOf(this.connection)
    const { counters } = this.#service
    const since = this.#hold?.since
    this.#settle(attempt, 'connected')
    this.#finish('lost')
    counters.countDialTime(attempt.ms)
    if (since !== undefined) counters.countHoldTime(this.#dialler.now() - since)
    this.#service.connected(client, attempt.backend)
  }

  /** An attempt that is under way has failed, and its socket is closed; `code`: an errno's name. */
  lost(attempt: DialAttempt<B, Socket, Connection>, code: string): void {
    const { backend } = attempt
    this.#lastError = `${code} from ${backend.key}`
    // Made first: it has to know of the attempt.
    const plan = this.#plan
    this.#settle(attempt, code === 'ECONNREFUSED' ? 'refused' : code)
    const now = this.#dialler.now()
    if (isOutOfResources(code)) return this.#follow(plan.failedLocally(backend.key, now))
    if (code === 'EADDRNOTAVAIL') return this.#follow(plan.outOfReach(backend.key, now))
    this.#service.failed(backend, restMs.refused)
    this.#follow(plan.failed(backend.key, now))
  }

  get #plan(): RetryPlan<B> {
    if (this.#planMade !== undefined) return this.#planMade
    const { limits, random } = this.#dialler
    const plan = new RetryPlan<B>(
      limits.dialLadder,
      this.#startedAt,
      tried => this.#pick(tried),
      random,
    )
    const first = this.attempts[this.#first]
    if (first !== undefined) plan.started(first.backend.key)
    this.#planMade = plan
    return plan
  }

  /** Another round for a client that is held. */
  #startRound(hold: Hold): void {
    const dialler = this.#dialler
    hold.isPausing = false
    this.#left = noKeys
    // For the record the ladder's attempts and those of the last round are enough.
    this.attempts.length = hold.firstAttempt
    const pick = (tried: ReadonlySet<string>): B | undefined => this.#pick(tried)
    const now = dialler.now()
    // After a pause there may be no next round.
    const hasNext = this.#service.holdMs > 0
    const ladder = hasNext ? heldLadder : dialler.limits.dialLadder
    this.#planMade = new RetryPlan<B>(ladder, now, pick, dialler.random, hasNext)
    this.#follow(this.#planMade.start(now))
  }

  /** All attempts came to nothing: whether the client waits for the next round. */
  #holds(): boolean {
    const dialler = this.#dialler
    const until = dialler.acceptedAt(this.connection) + this.#service.holdMs
    const left = until - dialler.now()
    if (left <= 0) return false
    if (this.#hold === undefined) {
      if (!this.#service.hold()) {
        this.#service.counters.add('holdRefused', 1)
        this.#isOneTooMany = true
        return false
      }
      const firstAttempt = Math.min(this.attempts.length, mostRecorded)
      // Endpoints that do not serve again and again are asked no more often than others.
      const rounds = countUnserved(this.attempts) - unservedKeys(this.attempts).size
      this.#hold = { since: dialler.now(), rounds, firstAttempt, isPausing: true }
    }
    const hold = this.#hold
    this.#endAttempts('timeout')
    hold.isPausing = true
    dialler.setTimer(this.connection, Math.min(left, this.#nextPause(hold)))
    return true
  }

  #nextPause(hold: Hold): number {
    const random = this.#dialler.random()
    // Over all of this time: clients that wait must not all be dialled for at the same instant.
    if (this.#service.paused) return longestHeldPauseMs * (0.1 + 0.9 * random)
    const pause = Math.min(firstHeldPauseMs * 2 ** hold.rounds, longestHeldPauseMs)
    hold.rounds += 1
    return pause * (0.8 + 0.4 * random)
  }

  #pick(tried?: ReadonlySet<string>): B | undefined {
    const client = this.#dialler.clientOf(this.connection)
    const left = this.#left
    const passedOver =
      left.size === 0 || tried === undefined
        ? (tried ?? left)
        : { has: (key: string) => left.has(key) || tried.has(key) }
    return this.#service.balancer.pick(client, passedOver, this.#choice.among)
  }

  #follow(step: NextStep<B>): void {
    if (step.action === 'give-up') return this.#giveUp()
    // A pause in which no answer is awaited: each has refused.
    if (step.action === 'wait' && this.#plan.cause === 'SC') this.#service.allFailed()
    this.#dialler.setTimer(this.connection, step.ms)
    if (step.action === 'dial') this.#try(step.endpoint)
  }

  #try(backend: B): void {
    const dialler = this.#dialler
    const { counters } = this.#service
    if (this.#pending > 0) {
      if (!dialler.fds.take(1)) {
        return this.#follow(this.#plan.failedLocally(backend.key, dialler.now()))
      }
      this.#extraFds += 1
    }
    counters.add('dialAttempts', 1)
    if (this.attempts.length > 0) counters.add('dialRetries', 1)
    const attempt = new DialAttempt(this, backend, dialler.now())
    this.attempts.push(attempt)
    this.#pending += 1
    dialler.connect(attempt)
  }

  #clientLeft(): void {
    this.#finish('cancelled')
    this.#dialler.gaveUp(this.connection, 'CC', 'closed')
  }

  #giveUp(): void {
    const { cause } = this.#plan
    if (cause !== 'RC') this.#service.allFailed()
    if (this.#holds()) return
    this.#finish('timeout')
    const why = this.#service.paused
      ? 'paused'
      : this.#lastError || 'no endpoint answered'
    const detail = this.#isOneTooMany ? `too many clients wait; ${why}` : why
    this.#dialler.gaveUp(this.connection, cause, detail)
  }

  /** Ends the timer and the attempts under way. Silent for a step is the endpoint's fault. */
  #finish(result: 'lost' | 'timeout' | 'cancelled'): void {
    this.#dialler.clearTimer(this.connection)
    this.#endAttempts(result)
    if (this.#hold === undefined) return
    this.#hold = undefined
    this.#service.unhold()
  }

  #endAttempts(result: 'lost' | 'timeout' | 'cancelled'): void {
    const dialler = this.#dialler
    const [firstStep = 0] = dialler.limits.dialLadder
    if (this.#pending === 0) return
    for (const attempt of this.attempts) {
      if (attempt.dial === undefined) continue
      this.#settle(attempt, result)
      if (attempt.ms >= firstStep) this.#service.failed(attempt.backend, restMs.silent)
      if (attempt.socket !== undefined) dialler.close(attempt.socket)
    }
  }

  /** Notes how an attempt has ended, and gives back descriptors beyond its share. */
  #settle(attempt: DialAttempt<B, Socket, Connection>, result: string): void {
    const dialler = this.#dialler
    attempt.dial = undefined
    attempt.result = result
    attempt.ms = dialler.now() - attempt.startedAt
    this.#pending -= 1
    if (this.#extraFds === 0) return
    const spareFds = this.#extraFds - Math.max(this.#pending - 1, 0)
    if (spareFds <= 0) return
    this.#extraFds -= spareFds
    dialler.fds.release(spareFds)
  }
}

/** For the record of a connection: plain data. */
export const attemptRecords = (
  attempts: readonly Pick<
    DialAttempt<Backend, unknown, unknown>,
    'backend' | 'result' | 'ms'
  >[],
): readonly Attempt[] =>
  attempts.map(({ backend, result, ms }) => ({ endpoint: backend.key, result, ms }))
