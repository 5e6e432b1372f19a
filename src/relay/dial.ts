import { isOutOfResources } from '../util/error-code.ts'
import type { Backend } from './backend.ts'
import { closedEarly } from './early-close.ts'
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
  /** Calls `Dial.timer` after `ms`, in place of what was set before. */
  setTimer(connection: Connection, ms: number): void
  clearTimer(connection: Connection): void
  /** Starts an attempt; what comes of it goes to `Dial.won` or `Dial.lost`. */
  connect(attempt: DialAttempt<B, Socket, Connection>): void
  close(socket: Socket): void
  /** No endpoint could be connected to. */
  gaveUp(connection: Connection, cause: GiveUpCause, detail: string): void
}

/** What a dial needs of its listener. */
export type DialService<B extends Backend> = ListenerEndpoints<B> & {
  readonly counters: {
    add(counter: 'dialAttempts' | 'dialRetries', amount: number): void
    countDialTime(ms: number): void
  }
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
  /** Where its own attempts begin. */
  readonly #first: number
  /** Endpoints that have closed early are not dialled again. */
  readonly #left: ReadonlySet<string>
  /** Made when the first attempt has failed or takes long: most dials need none. */
  #planMade: RetryPlan<B> | undefined
  /** Attempts under way. */
  #pending = 0
  /** Descriptors taken beyond the one that the connection has paid for. */
  #extraFds = 0
  #lastError = ''

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
    this.#left = closedEarly(attempts)
  }

  start(): void {
    const endpoint = this.#pick()
    const [ms] = this.#dialler.limits.dialLadder
    if (endpoint === undefined || ms === undefined) {
      return this.#follow(this.#plan.start(this.#startedAt))
    }
    this.#follow({ action: 'dial', endpoint, ms })
  }

  /** The time of a step is over. */
  timer(): void {
    this.#follow(this.#plan.timer(this.#dialler.now()))
  }

  /** The client left, or the connection is ended otherwise. */
  cancel(): void {
    this.#finish('cancelled')
  }

  /** An attempt that is under way has connected: the dial is over. */
  won(attempt: DialAttempt<B, Socket, Connection>): void {
    const client = this.#dialler.clientOf(this.connection)
    this.#settle(attempt, 'connected')
    this.#finish('lost')
    this.#service.counters.countDialTime(attempt.ms)
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
    if (isLocalFailure(code)) return this.#follow(plan.failedLocally(backend.key, now))
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

  #giveUp(): void {
    const { cause } = this.#plan
    this.#finish('timeout')
    const detail = this.#lastError || 'no endpoint answered'
    this.#dialler.gaveUp(this.connection, cause, detail)
  }

  /** Ends the timer and the attempts under way. Silent for a step is the endpoint's fault. */
  #finish(result: 'lost' | 'timeout' | 'cancelled'): void {
    const dialler = this.#dialler
    const [firstStep = 0] = dialler.limits.dialLadder
    dialler.clearTimer(this.connection)
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

/**
 * Failures of this process or host, not of the endpoint: out of descriptors, buffers or
 * source ports. Trying another endpoint would not help, and blaming this one is wrong.
 */
const isLocalFailure = (code: string): boolean =>
  code === 'EADDRNOTAVAIL' || isOutOfResources(code)
