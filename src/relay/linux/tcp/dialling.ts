import { isLocalFailure, restMs } from '../../dial-errors.ts'
import type { Attempt } from '../../relay.ts'
import { type GiveUpCause, type NextStep, RetryPlan } from '../../retry-plan.ts'
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
import { backendSide, type ConnectionTable } from './connection-table.ts'
import { Dial, type Try } from './dial.ts'
import { SelfConnect } from './self-connect.ts'
import { allEvents } from './side-events.ts'
import { Story } from './story.ts'

/** Who has connections dialled; exactly one of the two is called unless it is cancelled. */
export interface Dialler {
  /** The backend's side is open; `events` are what is known of it. */
  connected(connection: number, events: number): void
  gaveUp(connection: number, cause: GiveUpCause, detail: string): void
  /** Handling an event of the backend's side has thrown. */
  failed(side: number, error: unknown): void
}

/** Attempts that fail at once before the loop has a turn. */
const deepest = 64

/**
 * Dials for accepted connections. The first attempt, which is the only one of most, has
 * its state in the table; a `Dial` is made when it fails or takes long, and carries out
 * what its RetryPlan says.
 *
 * A connection has paid for one descriptor of the backend side; attempts that overlap pay
 * for themselves and are left out while there are none to spare.
 */
export class Dialling implements EventSource {
  readonly #env: WorkerEnv
  readonly #table: ConnectionTable
  readonly #timers: TimerWheel
  readonly #dialler: Dialler
  /** Numbers in the loop: of connections, and of attempts beyond the first. */
  readonly #sides: number
  readonly #extra: number
  readonly #tries: (Try | undefined)[] = []
  readonly #free: number[] = []
  readonly #address: NativeMemory
  readonly #answer: NativeMemory
  readonly #linger: Linger
  readonly #selfConnect: SelfConnect

  constructor(
    env: WorkerEnv,
    table: ConnectionTable,
    timers: TimerWheel,
    dialler: Dialler,
    sides: number,
  ) {
    this.#env = env
    this.#table = table
    this.#timers = timers
    this.#dialler = dialler
    this.#sides = sides
    this.#extra = env.loop.register(this)
    this.#address = env.calls.allocate(sockaddrSize)
    this.#answer = env.calls.allocate(8)
    this.#linger = new Linger(env.calls)
    this.#selfConnect = new SelfConnect(env.calls)
  }

  start(connection: number): void {
    const { now } = this.#env.loop
    const [ms] = this.#env.limits.dialLadderMs
    const backend = this.#pick(connection, undefined)
    if (backend === undefined || ms === undefined) {
      const dial = this.#dialOf(connection)
      return this.#follow(connection, dial, dial.plan.start(now))
    }
    this.#table.backend[connection] = backend
    this.#table.listener[connection]?.counters.add('dialAttempts', 1)
    const side = backendSide(connection)
    const fd = this.#connect(backend, this.#sides, side)
    if (fd < 0) return this.#firstFailed(connection, fd)
    this.#table.fd[side] = fd
    this.#timers.set(connection, ms, now)
  }

  /** An event of the first attempt, which is the backend's side. */
  firstReady(connection: number, events: number): void {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return
    const fd = this.#table.fd[backendSide(connection)] ?? -1
    const backend = this.#table.backend[connection]
    if (backend === undefined) return
    const error = this.#outcome(fd, events, backend)
    const dial = this.#table.story[connection]?.dial
    const attempt = dial?.first
    if (dial !== undefined && attempt !== undefined) {
      return error === 0
        ? this.#won(dial, attempt, events)
        : this.#lost(dial, attempt, error)
    }
    if (error !== 0) return this.#firstFailed(connection, error)
    this.#connected(connection, backend, this.#table.acceptedAt[connection] ?? 0)
    this.#dialler.connected(connection, events)
  }

  /** An event of an attempt beyond the first. */
  ready(index: number, events: number): void {
    const attempt = this.#tries[index]
    const dial = attempt && this.#table.story[attempt.connection]?.dial
    if (attempt === undefined || dial === undefined) return
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return
    try {
      const error = this.#outcome(attempt.fd, events, attempt.backend)
      if (error === 0) this.#won(dial, attempt, events)
      else this.#lost(dial, attempt, error)
    } catch (error) {
      // Afterwards the attempt may be nobody's, but its connection is known here.
      this.#dialler.failed(backendSide(attempt.connection), error)
    }
  }

  failed(index: number, error: unknown): void {
    const connection = this.#tries[index]?.connection ?? -1
    this.#env.teller.fault(this.#table.listener[connection]?.name ?? '', error)
  }

  /** The time of a step is over. */
  timer(connection: number): void {
    const dial = this.#dialOf(connection)
    this.#follow(connection, dial, dial.plan.timer(this.#env.loop.now))
  }

  /** The client left, or everything ends: so do all attempts but what the table holds. */
  cancel(connection: number): void {
    this.#timers.clear(connection)
    const dial = this.#table.story[connection]?.dial
    if (dial !== undefined) return this.#finish(connection, dial, 'cancelled')
    const backend = this.#table.backend[connection]
    if (backend === undefined) return
    const ms = this.#env.loop.now - (this.#table.acceptedAt[connection] ?? 0)
    this.#story(connection).attempts = [
      { endpoint: backend.key, result: 'cancelled', ms },
    ]
    this.#blameSilent(connection, backend, ms)
  }

  #pick(
    connection: number,
    tried: ReadonlySet<string> | undefined,
  ): WorkerBackend | undefined {
    const listener = this.#table.listener[connection]
    const choice = this.#table.choice[connection]
    if (listener === undefined || choice === undefined) return undefined
    return listener.balancer.pick(this.#client(connection), tried, choice.among)
  }

  /** Who the client is, where the balancer looks at it. */
  #client(connection: number): string {
    const isSticky = this.#table.listener[connection]?.balancer.isSticky ?? false
    return isSticky ? this.#table.peerOf(connection).address : ''
  }

  /** A socket on its way to `backend`, or a negative errno. */
  #connect(backend: WorkerBackend, source: number, index: number): number {
    const { calls, loop, fds } = this.#env
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
      result = loop.add(fd, source, index, allEvents)
    }
    if (result === 0) return fd
    fds.close(fd)
    return result
  }

  #sockaddrOf({ address, port }: WorkerBackend): Uint8Array {
    const sockaddr = newSockaddr()
    writeSockaddr(this.#address, 0, address, port)
    sockaddr.set(this.#address.bytes.subarray(0, sockaddr.length))
    return sockaddr
  }

  /** 0, or the negative errno of a connect that has come to its end. */
  #outcome(fd: number, events: number, backend: WorkerBackend): number {
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

  #connected(connection: number, backend: WorkerBackend, startedAt: number): void {
    const { now } = this.#env.loop
    const listener = this.#table.listener[connection]
    this.#timers.clear(connection)
    this.#table.connectedAt[connection] = now
    this.#table.backend[connection] = backend
    backend.active += 1
    listener?.counters.countDialTime(now - startedAt)
    listener?.succeeded(this.#client(connection), backend)
  }

  #firstFailed(connection: number, result: number): void {
    const dial = this.#dialOf(connection)
    if (dial.first !== undefined) this.#lost(dial, dial.first, result)
  }

  /** The dial of a connection, with its first attempt if one is under way. */
  #dialOf(connection: number): Dial {
    const story = this.#story(connection)
    if (story.dial !== undefined) return story.dial
    const table = this.#table
    const startedAt = table.acceptedAt[connection] ?? 0
    const { limits, random } = this.#env
    const plan = new RetryPlan<WorkerBackend>(
      limits.dialLadderMs,
      startedAt,
      tried => this.#pick(connection, tried),
      random,
    )
    const dial = new Dial(plan)
    story.dial = dial
    story.attempts = dial.attempts
    const backend = table.backend[connection]
    if (backend === undefined) return dial
    plan.started(backend.key)
    const record: Attempt = { endpoint: backend.key, result: 'pending', ms: 0 }
    dial.attempts.push(record)
    const fd = table.fd[backendSide(connection)] ?? -1
    dial.tries.push({ connection, backend, startedAt, record, fd, index: -1 })
    return dial
  }

  #follow(connection: number, dial: Dial, step: NextStep<WorkerBackend>): void {
    this.#timers.clear(connection)
    if (step.action === 'give-up') return this.#giveUp(connection, dial)
    this.#timers.set(connection, step.ms, this.#env.loop.now)
    if (step.action === 'dial') this.#try(connection, dial, step.endpoint)
  }

  #try(connection: number, dial: Dial, backend: WorkerBackend): void {
    const { fds, loop } = this.#env
    const { now } = loop
    if (dial.tries.length > 0) {
      if (!fds.take(1)) {
        return this.#follow(connection, dial, dial.plan.failedLocally(backend.key, now))
      }
      dial.extraFds += 1
    }
    const counters = this.#table.listener[connection]?.counters
    counters?.add('dialAttempts', 1)
    if (dial.attempts.length > 0) counters?.add('dialRetries', 1)
    const record: Attempt = { endpoint: backend.key, result: 'pending', ms: 0 }
    dial.attempts.push(record)
    const index = this.#free.pop() ?? this.#tries.length
    const fd = this.#connect(backend, this.#extra, index)
    const attempt: Try = { connection, backend, startedAt: now, record, fd, index }
    this.#tries[index] = attempt
    dial.tries.push(attempt)
    if (fd < 0) this.#lostAtOnce(dial, attempt, fd)
  }

  #won(dial: Dial, attempt: Try, events: number): void {
    const { connection, backend, fd, index } = attempt
    const side = backendSide(connection)
    this.#settle(dial, attempt, 'connected')
    this.#finish(connection, dial, 'lost')
    if (index >= 0) {
      this.#table.fd[side] = fd
      this.#env.loop.pass(fd, this.#sides, side)
    }
    this.#connected(connection, backend, attempt.startedAt)
    this.#dialler.connected(connection, events)
  }

  #lost(dial: Dial, attempt: Try, result: number): void {
    const { connection, backend, fd, index } = attempt
    const code = errnoName(result)
    dial.lastError = `${code} from ${backend.key}`
    this.#settle(dial, attempt, code === 'ECONNREFUSED' ? 'refused' : code)
    if (fd >= 0) this.#env.fds.close(fd)
    if (index < 0) this.#forgetFirst(connection)
    const { now } = this.#env.loop
    const { plan } = dial
    if (isLocalFailure(code)) {
      return this.#follow(connection, dial, plan.failedLocally(backend.key, now))
    }
    this.#table.listener[connection]?.backendFailed(backend, restMs.refused)
    this.#follow(connection, dial, plan.failed(backend.key, now))
  }

  /** Of thousands of endpoints without a route each fails inside the call of the one before. */
  #lostAtOnce(dial: Dial, attempt: Try, result: number): void {
    if (dial.depth < deepest) {
      dial.depth += 1
      this.#lost(dial, attempt, result)
      dial.depth -= 1
      return
    }
    this.#env.loop.clock.setTimeout(() => {
      if (dial.tries.includes(attempt)) this.#lost(dial, attempt, result)
    }, 0)
  }

  #giveUp(connection: number, dial: Dial): void {
    const { cause } = dial.plan
    this.#finish(connection, dial, 'timeout')
    this.#dialler.gaveUp(connection, cause, dial.lastError || 'no endpoint answered')
  }

  /** Ends the timer and the attempts that are still under way. */
  #finish(
    connection: number,
    dial: Dial,
    result: 'lost' | 'timeout' | 'cancelled',
  ): void {
    this.#timers.clear(connection)
    for (const attempt of dial.tries.slice()) {
      const ms = this.#settle(dial, attempt, result)
      this.#blameSilent(connection, attempt.backend, ms)
      if (attempt.fd >= 0) this.#env.fds.close(attempt.fd)
      if (attempt.index < 0) this.#forgetFirst(connection)
    }
    this.#story(connection).dial = undefined
  }

  #forgetFirst(connection: number): void {
    this.#table.fd[backendSide(connection)] = -1
    this.#table.backend[connection] = undefined
  }

  #blameSilent(connection: number, backend: WorkerBackend, ms: number): void {
    const [firstStep = 0] = this.#env.limits.dialLadderMs
    if (ms < firstStep) return
    this.#table.listener[connection]?.backendFailed(backend, restMs.silent)
  }

  /** Notes the result of an attempt, and returns how many milliseconds it took. */
  #settle(dial: Dial, attempt: Try, result: string): number {
    const { record, startedAt, index } = attempt
    record.result = result
    record.ms = this.#env.loop.now - startedAt
    dial.tries.splice(dial.tries.indexOf(attempt), 1)
    if (index >= 0) {
      this.#tries[index] = undefined
      this.#free.push(index)
    }
    const spareFds = dial.extraFds - Math.max(dial.tries.length - 1, 0)
    if (spareFds > 0) {
      dial.extraFds -= spareFds
      this.#env.fds.release(spareFds)
    }
    return record.ms
  }

  #story(connection: number): Story {
    return (this.#table.story[connection] ??= new Story())
  }
}
