import { connect, type Socket, type TcpNetConnectOpts } from 'node:net'
import type { Balancer } from '../../balance/balancer.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import type { Backend } from '../backend.ts'
import { countDialTime } from '../counters.ts'
import { errorCode, isLocalFailure, restMs } from '../dial-errors.ts'
import type { FdBudget } from '../fd-budget.ts'
import type { Choice } from '../front.ts'
import type { Attempt, ListenerCounters, RelayLimits } from '../relay.ts'
import { type GiveUpCause, type NextStep, RetryPlan } from '../retry-plan.ts'

/** What a dial needs of its listener. */
export interface DialContext {
  readonly clock: Clock
  readonly random: () => number
  readonly limits: RelayLimits
  readonly budget: FdBudget
  readonly balancer: Balancer<Backend>
  readonly counters: ListenerCounters
}

/** Who dials. Exactly one of the two is called, once, unless the dial is cancelled. */
export interface Dialler {
  connected(socket: Socket, backend: Backend): void
  gaveUp(cause: GiveUpCause, detail: string): void
}

interface Try {
  /** Gone when the attempt is settled: what its socket says then is not for the dial. */
  dial: Dial | undefined
  readonly socket: Socket
  readonly backend: Backend
  readonly startedAt: number
  readonly record: Attempt
}

/**
 * Dials for one accepted connection: carries out what its RetryPlan says with real
 * sockets. Independent of accepting and of every other dial.
 *
 * The caller has paid for one descriptor of the backend side; attempts that overlap pay
 * for themselves and are left out while there are none to spare.
 */
export class Dial {
  readonly attempts: Attempt[] = []
  readonly #context: DialContext
  readonly #client: string
  readonly #choice: Choice
  readonly #dialler: Dialler
  readonly #startedAt: number
  /** Made when the first attempt has failed or takes long: most dials need none. */
  #planMade: RetryPlan<Backend> | undefined
  readonly #tries: Try[] = []
  #timer: Timer | undefined
  /** Descriptors taken beyond the one that the caller paid for. */
  #extraFds = 0
  #lastError = ''

  constructor(context: DialContext, client: string, choice: Choice, dialler: Dialler) {
    this.#context = context
    this.#client = client
    this.#choice = choice
    this.#dialler = dialler
    this.#startedAt = context.clock.now()
  }

  start(): void {
    const { balancer, limits } = this.#context
    const endpoint = balancer.pick(this.#client, undefined, this.#choice.among)
    const [ms] = limits.dialLadderMs
    if (endpoint === undefined || ms === undefined) {
      return this.#follow(this.#makePlan().start(this.#startedAt))
    }
    this.#follow({ action: 'dial', endpoint, ms })
  }

  /** The client left. */
  cancel(): void {
    this.#finish('cancelled')
  }

  get #plan(): RetryPlan<Backend> {
    if (this.#planMade !== undefined) return this.#planMade
    const plan = this.#makePlan()
    const [first] = this.attempts
    if (first !== undefined) plan.started(first.endpoint)
    return plan
  }

  #makePlan(): RetryPlan<Backend> {
    const { limits, random, balancer } = this.#context
    this.#planMade = new RetryPlan(
      limits.dialLadderMs,
      this.#startedAt,
      tried => balancer.pick(this.#client, tried, this.#choice.among),
      random,
    )
    return this.#planMade
  }

  #follow(step: NextStep<Backend>): void {
    const { clock } = this.#context
    clock.clearTimeout(this.#timer)
    if (step.action === 'give-up') return this.#giveUp()
    this.#timer = clock.setTimeout(
      () => this.#follow(this.#plan.timer(clock.now())),
      step.ms,
    )
    if (step.action === 'dial') this.#try(step.endpoint)
  }

  #try(backend: Backend): void {
    const { clock, counters, budget, limits } = this.#context
    if (this.#tries.length > 0) {
      if (!budget.take(1)) {
        return this.#follow(this.#plan.failedLocally(backend.key, clock.now()))
      }
      this.#extraFds += 1
    }
    counters.dialAttempts += 1
    if (this.attempts.length > 0) counters.dialRetries += 1
    const record: Attempt = { endpoint: backend.key, result: 'pending', ms: 0 }
    this.attempts.push(record)
    const socket = connect({
      host: backend.address,
      port: backend.port,
      allowHalfOpen: true,
      noDelay: true,
      autoSelectFamily: false,
      highWaterMark: limits.bufferBytes,
    } as TcpNetConnectOpts)
    const attempt: Try = { dial: this, socket, backend, startedAt: clock.now(), record }
    this.#tries.push(attempt)
    socket.on('connect', () => attempt.dial?.won(attempt))
    socket.on('error', error => attempt.dial?.lost(attempt, error))
  }

  won(attempt: Try): void {
    const { counters, balancer } = this.#context
    const { socket, backend, record } = attempt
    if (backend.failures > 0 && isSelfConnected(socket)) {
      socket.destroy()
      return this.lost(attempt, selfConnected())
    }
    this.#settle(attempt, 'connected')
    countDialTime(counters, record.ms)
    balancer.succeeded(this.#client, backend)
    this.#finish('lost')
    this.#dialler.connected(socket, backend)
  }

  lost(attempt: Try, error: NodeJS.ErrnoException): void {
    const { backend } = attempt
    const code = errorCode(error)
    this.#lastError = `${code} from ${backend.key}`
    this.#settle(attempt, code === 'ECONNREFUSED' ? 'refused' : code)
    const now = this.#context.clock.now()
    if (isLocalFailure(code)) {
      return this.#follow(this.#plan.failedLocally(backend.key, now))
    }
    this.#blame(backend, restMs.refused)
    this.#follow(this.#plan.failed(backend.key, now))
  }

  #giveUp(): void {
    const { cause } = this.#plan
    this.#finish('timeout')
    this.#dialler.gaveUp(cause, this.#lastError || 'no endpoint answered')
  }

  /** Ends the timer and the attempts that are still under way. */
  #finish(result: 'lost' | 'timeout' | 'cancelled'): void {
    this.#context.clock.clearTimeout(this.#timer)
    for (const attempt of this.#tries.slice()) {
      const silent = this.#settle(attempt, result) >= this.#firstStepMs
      if (silent) this.#blame(attempt.backend, restMs.silent)
      attempt.socket.destroy()
    }
  }

  /** Notes the result of an attempt, and returns how many milliseconds it took. */
  #settle(attempt: Try, result: string): number {
    const { record, startedAt } = attempt
    attempt.dial = undefined
    record.result = result
    record.ms = this.#context.clock.now() - startedAt
    this.#tries.splice(this.#tries.indexOf(attempt), 1)
    const spareFds = this.#extraFds - Math.max(this.#tries.length - 1, 0)
    if (spareFds > 0) {
      this.#extraFds -= spareFds
      this.#context.budget.release(spareFds)
    }
    return record.ms
  }

  #blame(backend: Backend, rest: number): void {
    backend.failures += 1
    this.#context.balancer.failed(backend, rest)
  }

  get #firstStepMs(): number {
    return this.#context.limits.dialLadderMs[0] ?? 0
  }
}

/**
 * On one host a dial to a port of the ephemeral range without a listener may be given
 * that very port for its own, and then TCP's simultaneous open connects it to itself
 * (RFC 9293, 3.5). It takes thousands of refusals to happen once, so that only an endpoint
 * that has failed before is worth the system calls.
 */
const isSelfConnected = (socket: Socket): boolean =>
  socket.localPort === socket.remotePort && socket.localAddress === socket.remoteAddress

const selfConnected = (): NodeJS.ErrnoException =>
  Object.assign(new Error('connected to itself'), { code: 'ECONNREFUSED' })
