import { isLocalFailure, restMs } from '../../dial-errors.ts'
import { type NextStep, RetryPlan } from '../../retry-plan.ts'
import {
  AF_INET,
  AF_INET6,
  EPOLLERR,
  EPOLLHUP,
  EPOLLOUT,
  SIOCINQ,
  SO_ERROR,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
} from '../constants.ts'
import { errno, errnoName } from '../errno.ts'
import type { EventSource } from '../event-loop.ts'
import { Linger } from '../linger.ts'
import type { NativeMemory } from '../native-memory.ts'
import { writeSockaddr } from '../sockaddr.ts'
import { sockaddrSize } from '../struct-layout.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import { newSockaddr, type WorkerBackend } from '../worker/worker-backend.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { endAttempts, pendingOf, settle } from './attempts.ts'
import { allEvents, Attempt, type Connection, type Side } from './connection.ts'
import type { Copying } from './copying.ts'
import type { Ending } from './ending.ts'
import { SelfConnect } from './self-connect.ts'

/** Attempts that fail at once, inside the call of the one before, before the loop has a turn. */
const deepest = 64

/**
 * Dials for accepted connections, as RetryPlan says. A connection has paid for one descriptor
 * of the backend's side; attempts that overlap pay for themselves and are left out while there
 * are none to spare.
 */
export class Dialling implements EventSource<Attempt> {
  readonly #env: WorkerEnv
  readonly #timers: TimerWheel<Connection>
  readonly #sides: EventSource<Side>
  readonly #copying: Copying
  readonly #ending: Ending
  readonly #address: NativeMemory
  readonly #answer: NativeMemory
  readonly #linger: Linger
  readonly #selfConnect: SelfConnect
  #depth = 0

  /** `sides` is who handles the events of connections that stand. */
  constructor(
    env: WorkerEnv,
    timers: TimerWheel<Connection>,
    sides: EventSource<Side>,
    copying: Copying,
    ending: Ending,
  ) {
    this.#env = env
    this.#timers = timers
    this.#sides = sides
    this.#copying = copying
    this.#ending = ending
    this.#address = env.calls.allocate(sockaddrSize)
    this.#answer = env.calls.allocate(8)
    this.#linger = new Linger(env.calls)
    this.#selfConnect = new SelfConnect(env.calls)
  }

  start(connection: Connection): void {
    const { now } = this.#env.loop
    const [ms] = this.#env.limits.dialLadderMs
    const backend = pick(connection, undefined)
    if (backend === undefined || ms === undefined) {
      return this.#follow(connection, this.#planOf(connection).start(now))
    }
    this.#timers.set(connection, ms, now)
    this.#try(connection, backend)
  }

  /** The time of a step is over. */
  timer(connection: Connection): void {
    this.#follow(connection, this.#planOf(connection).timer(this.#env.loop.now))
  }

  ready(attempt: Attempt, events: number): void {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return
    const error = this.#outcome(attempt, events)
    if (error === 0) this.#won(attempt, events)
    else this.#lost(attempt, error)
  }

  failed({ connection }: Attempt, error: unknown): void {
    this.#ending.failed(connection, error)
  }

  #follow(connection: Connection, step: NextStep<WorkerBackend>): void {
    this.#timers.clear(connection)
    if (step.action === 'give-up') return this.#giveUp(connection)
    this.#timers.set(connection, step.ms, this.#env.loop.now)
    if (step.action === 'dial') this.#try(connection, step.endpoint)
  }

  #try(connection: Connection, backend: WorkerBackend): void {
    const { fds, loop } = this.#env
    const { service, attempts } = connection
    if (attempts.length > 0 && pendingOf(connection) > 0) {
      if (!fds.take(1)) {
        const plan = this.#planOf(connection)
        return this.#follow(connection, plan.failedLocally(backend.key, loop.now))
      }
      connection.extraFds += 1
    }
    service.counters.add('dialAttempts', 1)
    if (attempts.length > 0) service.counters.add('dialRetries', 1)
    const attempt = new Attempt(connection, backend, loop.now)
    attempts.push(attempt)
    const result = this.#connect(attempt)
    if (result < 0) this.#lostAtOnce(attempt, result)
  }

  /** Starts the attempt; 0, or a negative errno. */
  #connect(attempt: Attempt): number {
    const { calls, loop, fds } = this.#env
    const { backend } = attempt
    const isIpv6 = backend.address.includes(':')
    const family = isIpv6 ? AF_INET6 : AF_INET
    const fd = calls.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if (fd < 0) return fd
    fds.opened(fd)
    const sockaddr = (backend.sockaddr ??= this.#sockaddrOf(backend))
    this.#address.bytes.set(sockaddr)
    let result = this.#linger.reset(fd)
    if (result === 0) result = calls.connect(fd, this.#address.address, isIpv6 ? 28 : 16)
    if (result === 0 || result === -errno.EINPROGRESS || result === -errno.EINTR) {
      result = loop.add(fd, this, attempt, allEvents)
    }
    if (result === 0) attempt.fd = fd
    else fds.close(fd)
    return result
  }

  #sockaddrOf({ address, port }: WorkerBackend): Uint8Array {
    const sockaddr = newSockaddr()
    writeSockaddr(this.#address, 0, address, port)
    sockaddr.set(this.#address.bytes.subarray(0, sockaddr.length))
    return sockaddr
  }

  /** 0, or the negative errno of a connect that has come to its end. */
  #outcome({ fd, backend }: Attempt, events: number): number {
    if ((events & (EPOLLERR | EPOLLHUP)) !== 0) {
      const { address, words } = this.#answer
      words[0] = 0
      // It has answered and hung up before this thread had its turn: another endpoint's
      // answer would not be the one that was given.
      if (this.#env.calls.ioctl(fd, SIOCINQ, address) === 0 && words[0] > 0) return 0
      words[0] = 0
      words[1] = 4
      this.#env.calls.getsockopt(fd, SOL_SOCKET, SO_ERROR, address, address + 4)
      return -(words[0] ?? 0) || -errno.ECONNRESET
    }
    // It takes thousands of refusals to happen once, and two system calls to find.
    const isSelf = backend.failures > 0 && this.#selfConnect.of(fd)
    return isSelf ? -errno.ECONNREFUSED : 0
  }

  #won(attempt: Attempt, events: number): void {
    const { connection, backend, fd } = attempt
    const { service } = connection
    const { loop } = this.#env
    settle(this.#env, attempt, 'connected')
    endAttempts(this.#env, connection, 'lost')
    this.#timers.clear(connection)
    connection.backend.fd = fd
    loop.pass(fd, this.#sides, connection.backend)
    connection.connectedAt = loop.now
    connection.endpoint = backend
    backend.active += 1
    service.counters.countDialTime(attempt.ms)
    service.succeeded(clientOf(connection), backend)
    this.#copying.begin(connection, events)
  }

  #lost(attempt: Attempt, result: number): void {
    const { connection, backend, fd } = attempt
    const code = errnoName(result)
    connection.lastError = `${code} from ${backend.key}`
    // Made first: it has to know of the attempt.
    const plan = this.#planOf(connection)
    settle(this.#env, attempt, code === 'ECONNREFUSED' ? 'refused' : code)
    if (fd >= 0) this.#env.fds.close(fd)
    const { now } = this.#env.loop
    if (isLocalFailure(code)) {
      return this.#follow(connection, plan.failedLocally(backend.key, now))
    }
    connection.service.failed(backend, restMs.refused)
    this.#follow(connection, plan.failed(backend.key, now))
  }

  /** Of thousands of endpoints without a route each fails inside the call of the one before. */
  #lostAtOnce(attempt: Attempt, result: number): void {
    if (this.#depth < deepest) {
      this.#depth += 1
      try {
        this.#lost(attempt, result)
      } finally {
        this.#depth -= 1
      }
      return
    }
    this.#env.loop.clock.setTimeout(() => {
      if (attempt.result === 'pending') this.#lost(attempt, result)
    }, 0)
  }

  #giveUp(connection: Connection): void {
    const { cause } = this.#planOf(connection)
    endAttempts(this.#env, connection, 'timeout')
    this.#ending.kill(connection, cause, connection.lastError || 'no endpoint answered')
  }

  #planOf(connection: Connection): RetryPlan<WorkerBackend> {
    if (connection.plan !== undefined) return connection.plan
    const { limits, random } = this.#env
    const plan = new RetryPlan<WorkerBackend>(
      limits.dialLadderMs,
      connection.acceptedAt,
      tried => pick(connection, tried),
      random,
    )
    const [first] = connection.attempts
    if (first !== undefined) plan.started(first.backend.key)
    connection.plan = plan
    return plan
  }
}

const pick = (
  connection: Connection,
  tried: ReadonlySet<string> | undefined,
): WorkerBackend | undefined => {
  const { service, choice } = connection
  return service.balancer.pick(clientOf(connection), tried, choice.among)
}

/** Who the client is, where the balancer looks at it. */
const clientOf = (connection: Connection): string =>
  connection.service.balancer.isSticky ? connection.peer.address : ''
