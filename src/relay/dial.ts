import { type KeySet, noKeys } from '../balance/pool.ts'
import { isOutOfResources } from '../util/usher-error.ts'
import { Attempts, type DialAttempt, type Dialler } from './attempts.ts'
import { unservedKeys } from './early-close.ts'
import type { Choice, Backend } from './front.ts'
import { type ListenerEndpoints, cooldownMs } from './listener-endpoints.ts'
import { type NextStep, RetryPlan } from './retry-plan.ts'
import type { Waiting } from './connection-queue.ts'

/** Rounds for clients that wait: each endpoint is tried once in each of them. */
const heldLadder = [250, 750]
const firstHeldPauseMs = 250
const longestHeldPauseMs = 1000
/** A client that waits for a place checks again so often. */
const queueCheckMs = 1000
/** Attempts of one connection before a round for clients that wait. */
const mostRecorded = 32

interface Hold {
  readonly since: number
  rounds: number
  /** Where the attempts of its rounds begin; undefined before the first of them. */
  firstAttempt: number | undefined
  isPausing: boolean
}

/**
 * Dials for one accepted connection: carries out what its RetryPlan says, whatever the relay
 * dials with. Independent of accepting and of every other dial.
 */
export class Dial<B extends Backend, Connection> {
  readonly connection: Connection
  readonly choice: Choice<B>
  readonly #attempts: Attempts<B, Connection>
  readonly #dialler: Dialler<B, Connection>
  readonly #service: ListenerEndpoints<B>
  #startedAt: number
  /** Where the attempts of its plan begin. */
  #first: number
  /** Endpoints that have not served: not dialled again. */
  #left: ReadonlySet<string>
  /** Made when the first attempt has failed or takes long: most dials need none. */
  #planMade: RetryPlan<B> | undefined
  /** Set while the client waits for an endpoint to come back. */
  #hold: Hold | undefined
  /** Set once it has waited for a place at an endpoint. */
  #wait: QueueWait<B> | undefined
  /** The last check found endpoints that were full, and none to be tried before them. */
  #isFull = false
  #lastError = ''
  /** It should have waited, and too many did. */
  #isOneTooMany = false

  constructor(
    dialler: Dialler<B, Connection>,
    connection: Connection,
    service: ListenerEndpoints<B>,
    choice: Choice<B>,
    attempts: DialAttempt<B, Connection>[],
  ) {
    this.#dialler = dialler
    this.connection = connection
    this.#service = service
    this.choice = choice
    this.#startedAt = dialler.now()
    this.#attempts = new Attempts(dialler, attempts)
    this.#first = attempts.length
    this.#left = unservedKeys(attempts)
  }

  /** Those of the connection's dials before this one come first. */
  get attempts(): DialAttempt<B, Connection>[] {
    return this.#attempts.all
  }

  /** Its client waits: for an endpoint to come back, a place there, or the end of a pause. */
  get isHeld(): boolean {
    return this.#hold !== undefined || this.#wait?.since !== undefined
  }

  /** Undefined while its plan is not over, though its client waits. */
  get #held(): Hold | undefined {
    return this.#hold?.firstAttempt === undefined ? undefined : this.#hold
  }

  start(): void {
    if (this.#service.paused || this.#hasHadRound) return this.#giveUp()
    // First come, first served.
    if (this.#service.capacity.hasQueued) return this.#enqueue()
    this.#begin(this.#pick())
  }

  #begin(endpoint: B | undefined): void {
    const [ms] = this.#dialler.limits.dialLadder
    if (endpoint === undefined || ms === undefined) {
      return this.#follow(this.#plan.start(this.#startedAt))
    }
    this.#follow({ action: 'dial', endpoint, ms })
  }

  /** The time of a step is over. */
  timer(): void {
    const hold = this.#held
    if (this.#wait?.since !== undefined) {
      this.#wait.forgetFailed()
      return this.#waitInQueue(this.#wait)
    }
    if (hold === undefined) return this.#follow(this.#plan.timer(this.#dialler.now()))
    if (this.#dialler.hasLeft(this.connection)) return this.clientLeft()
    if (hold.isPausing && this.#service.paused) this.#giveUp()
    else if (hold.isPausing) this.#startRound(hold)
    else this.#follow(this.#plan.timer(this.#dialler.now()))
  }

  /** The client has ended its side: one that is held and has said nothing does not wait. */
  clientEnded(): void {
    const waits = this.#held !== undefined || this.#wait?.since !== undefined
    if (waits && this.#dialler.hasLeft(this.connection)) this.clientLeft()
  }

  #leave(failed: ReadonlySet<string>): boolean {
    const endpoint = this.#pick(failed)
    const mayWait = this.#service.capacity.queueMs > 0
    if (this.#isFull || (mayWait && endpoint === undefined && failed.size > 0))
      return false
    this.#dequeue()
    // The time that it has waited is not that of the endpoints.
    this.#startedAt = this.#dialler.now()
    this.#planMade = undefined
    this.#first = this.attempts.length
    this.#begin(endpoint)
    return true
  }

  /** The listener has been paused: attempts under way come to nothing, and the client waits. */
  pause(): void {
    this.#dequeue()
    if (this.#hold?.isPausing !== true) this.#giveUp()
  }

  /** Endpoints that are to have no connections: attempts under way there come to nothing. */
  cut(endpoints: KeySet): void {
    for (const attempt of this.attempts) {
      const { dial, backend, socket } = attempt
      if (dial !== this || !endpoints.has(backend.key)) continue
      const plan = this.#plan
      if (socket !== undefined) this.#dialler.close(socket)
      this.#attempts.settle(attempt, 'cancelled')
      this.#follow(plan.failed(backend.key, this.#dialler.now()))
    }
  }

  /** The client left, or the connection is ended otherwise. */
  cancel(): void {
    this.#finish('cancelled')
  }

  /** The client is found to have left. */
  clientLeft(): void {
    this.#finish('cancelled')
    this.#dialler.gaveUp(this.connection, 'CC', 'closed')
  }

  /** An attempt that is under way has connected: the dial is over. */
  won(attempt: DialAttempt<B, Connection>): void {
    const client = this.#dialler.clientOf(this.connection)
    const { counters } = this.#service
    const since = this.#hold?.since
    this.#attempts.settle(attempt, 'connected')
    this.#finish('lost')
    counters.countDialTime(attempt.ms)
    counters.clientServed(true, this.#dialler.now())
    if (since !== undefined) counters.countHoldTime(this.#dialler.now() - since)
    this.#service.connected(client, attempt.backend)
  }

  /** An attempt that is under way has failed, and its socket is closed; `code`: an errno's name. */
  lost(attempt: DialAttempt<B, Connection>, code: string): void {
    const { backend } = attempt
    this.#lastError = `${code} from ${backend.key}`
    // Made first: it has to know of the attempt.
    const plan = this.#plan
    this.#attempts.settle(attempt, code === 'ECONNREFUSED' ? 'refused' : code)
    const now = this.#dialler.now()
    if (isOutOfResources(code)) return this.#follow(plan.failedLocally(backend.key, now))
    if (code === 'EADDRNOTAVAIL') return this.#follow(plan.outOfReach(backend.key, now))
    this.#service.failed(backend, cooldownMs.refused, code)
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
    // For the record the ladder's attempts and those of the last round are enough.
    const { firstAttempt = 0 } = hold
    this.#attempts.keepFirst(firstAttempt)
    this.#first = firstAttempt
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
    if (left <= 0 || this.#hasHadRound) return false
    const hold = this.#beginHold()
    if (hold === undefined) {
      this.#service.counters.add('holdRefused', 1)
      this.#isOneTooMany = true
      return false
    }
    hold.firstAttempt ??= Math.min(this.attempts.length, mostRecorded)
    this.#endAttempts('timeout')
    hold.isPausing = true
    dialler.setTimer(this.connection, Math.min(left, this.#nextPause(hold)))
    return true
  }

  /** Its client is counted among those that wait; undefined where it may not. */
  #beginHold(): Hold | undefined {
    const service = this.#service
    if (this.#hold !== undefined) return this.#hold
    if (service.holdMs === 0 || !service.hold()) return undefined
    const since = this.#dialler.now()
    this.#hold = { since, rounds: 0, firstAttempt: undefined, isPausing: false }
    return this.#hold
  }

  /** Each endpoint has accepted, and did not serve: there is none that could come back. */
  get #hasHadRound(): boolean {
    const left = this.#left
    return (
      left.size > 0 && !this.choice.isEmpty && !this.#service.hasOther(this.choice, left)
    )
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
    const passedOver = left.size === 0 ? tried : eitherOf(left, tried)
    const endpoint = this.#service.capacity.pick(client, passedOver, this.choice.among)
    this.#isFull = endpoint === 'full'
    return endpoint === 'full' ? undefined : endpoint
  }

  #follow(step: NextStep<B>): void {
    if (step.action !== 'dial' && this.#isFull && !this.#attempts.isAnyPending) {
      return this.#enqueue()
    }
    if (step.action === 'give-up') return this.#giveUp()
    // A pause in which no answer is awaited: each has refused.
    if (step.action === 'wait' && this.#plan.cause === 'SC') {
      this.#service.allFailed()
      this.#beginHold()
    }
    this.#dialler.setTimer(this.connection, step.ms)
    if (step.action === 'dial') this.#try(step.endpoint)
  }

  #try(backend: B): void {
    const { counters } = this.#service
    const isFirst = this.attempts.length === 0
    if (!this.#attempts.begin(this.connection, this, backend)) {
      return this.#follow(this.#plan.failedLocally(backend.key, this.#dialler.now()))
    }
    counters.add('dialAttempts', 1)
    if (!isFirst) counters.add('dialRetries', 1)
  }

  /** Waits until an endpoint has a place. */
  #enqueue(): void {
    const service = this.#service
    this.#isFull = false
    this.#endAttempts('timeout')
    this.#unhold()
    this.#wait ??= new QueueWait(this.choice, this.#left, failed => this.#leave(failed))
    if (!service.capacity.enqueue(this.#wait)) {
      service.counters.add('queueRefused', 1)
      return this.#giveUpQueue('too many clients are queued')
    }
    const failed = this.attempts.slice(this.#first).map(({ backend }) => backend.key)
    this.#wait.begin(this.#dialler.now(), new Set(failed))
    this.#attempts.keepFirst(mostRecorded)
    this.#waitInQueue(this.#wait)
  }

  #waitInQueue(wait: QueueWait<B>): void {
    const dialler = this.#dialler
    if (dialler.hasLeft(this.connection)) return this.clientLeft()
    const left = wait.left(this.#service.capacity.queueMs, dialler.now())
    if (left <= 0) return this.#giveUpQueue('all endpoints are full')
    // A cooldown may be over, of which nobody is notified.
    dialler.setTimer(this.connection, Math.min(left, queueCheckMs))
    this.#service.capacity.checkQueue()
  }

  #dequeue(): void {
    const wait = this.#wait
    if (wait?.since === undefined) return
    this.#dialler.waited(this.connection, 'queuedMs', wait.since)
    wait.end(this.#dialler.now())
    this.#service.capacity.dequeue(wait)
  }

  #giveUpQueue(detail: string): void {
    this.#finish('cancelled')
    this.#dialler.gaveUp(this.connection, 'sQ', detail)
  }

  #giveUp(): void {
    // After a pause each may be another server.
    if (this.#service.paused) this.#left = noKeys
    if (this.#isFull && !this.#service.paused) return this.#enqueue()
    const { cause } = this.#plan
    if (cause !== 'RC') this.#service.allFailed()
    if (this.#holds()) return
    this.#finish('timeout')
    const failure = this.#service.paused
      ? 'paused'
      : this.#lastError || unservedDetail(this.#left)
    const detail = this.#isOneTooMany ? `too many clients wait; ${failure}` : failure
    this.#dialler.gaveUp(this.connection, cause, detail)
  }

  /** Ends the timer, the attempts under way, and that its client waits. */
  #finish(result: 'lost' | 'timeout' | 'cancelled'): void {
    this.#dialler.clearTimer(this.connection)
    this.#endAttempts(result)
    this.#dequeue()
    this.#unhold()
  }

  #unhold(): void {
    if (this.#hold === undefined) return
    this.#dialler.waited(this.connection, 'heldMs', this.#hold.since)
    this.#hold = undefined
    this.#service.unhold()
  }

  #endAttempts(result: 'lost' | 'timeout' | 'cancelled'): void {
    const service = this.#service
    this.#attempts.endAll(result, backend =>
      service.failed(backend, cooldownMs.silent, 'no answer to a connect'),
    )
  }
}

const eitherOf = (one: KeySet, other: KeySet | undefined): KeySet =>
  other === undefined ? one : { has: key => one.has(key) || other.has(key) }

const unservedDetail = ({ size }: ReadonlySet<string>): string =>
  size === 0 ? 'no endpoint answered' : 'each endpoint closed early or had no answer'

/** A dial's waits for a place at an endpoint: all of them together last no longer than one may. */
class QueueWait<B extends Backend> implements Waiting {
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
