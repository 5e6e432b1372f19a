import { type ChildProcess, fork } from 'node:child_process'
import type { Clock, Timer } from '../../util/clock.ts'
import { RelayUnavailable, unavailable, type WantedRelay } from '../choose-relay.ts'
import type { Channel, RemoteEnding, Remote } from '../remote/remote.ts'
import { UsherError } from '../../util/usher-error.ts'
import type { Call, DataPlaneSelf, Order, Report, Setup } from './messages.ts'

/** The program of a data plane, and how Node is to start it. */
export interface DataPlaneProgram {
  readonly file: URL
  /** Node's own flags. */
  readonly execArgv: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** A program with its arguments that becomes Node; none by default. */
  readonly launcher?: readonly string[]
}

/** Milliseconds it may be there without its end of the channel. */
const lingerMs = 200

/** The way to one process of the data plane. */
export class DataPlaneProcess implements Channel<Call> {
  readonly #clock: Clock
  readonly #remote: Remote<Call, DataPlaneSelf>
  readonly #child: ChildProcess
  /** Its own report of why there can't be a relay. */
  cannotStart: Extract<Report, { readonly kind: 'cannot-start' }> | undefined
  /** It has ended of what no program may do, as native code can. */
  crashed = false
  #pongs = 0
  #hasEnded = false
  #lingering: Timer | undefined

  /** Throws when it can't be started: out of descriptors, for instance. */
  constructor(
    clock: Clock,
    program: DataPlaneProgram,
    setup: Setup,
    remote: Remote<Call, DataPlaneSelf>,
  ) {
    this.#clock = clock
    this.#remote = remote
    this.#child = forked(program)
    this.#listen(this.#child)
    this.send({ kind: 'setup', setup })
  }

  /** Undefined when it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  send(order: Order): void {
    // One that has just died is reported by its exit.
    if (this.#child.connected) this.#child.send(order, () => {})
  }

  beats(): number {
    this.send({ kind: 'ping' })
    return this.#pongs
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  #listen(child: ChildProcess): void {
    child.on('message', report => this.#receive(report as Report))
    child.on('error', error => {
      // One that was never there has no exit.
      if (child.pid === undefined) this.#remote.end(failedStart(error))
      else this.#remote.refused(error)
    })
    child.on('exit', (code, signal) => {
      this.#hasEnded = true
      this.#clock.clearTimeout(this.#lingering)
      this.crashed = signal !== null && crashSignals.has(signal)
      const how = signal === null ? `ended with code ${code}` : `was killed by ${signal}`
      this.#remote.end(new Error(how))
    })
    child.on('disconnect', () => this.#disconnected())
  }

  #receive(report: Report): void {
    if (report.kind === 'pong') this.#pongs += 1
    else if (report.kind === 'cannot-start') this.cannotStart = report
    else this.#remote.receive(report)
  }

  /** Most often it is about to be known how it has ended. */
  #disconnected(): void {
    if (this.#hasEnded) return
    this.#lingering = this.#clock.setTimeout(
      () => this.#remote.kill('it no longer accepted messages'),
      lingerMs,
    )
  }
}

/** What native code did when it was tried for the first time. */
export class ProbeCrashed extends Error {}

/** Why there is no data plane, when the first one has ended. */
export const startError = (
  first: Pick<DataPlaneProcess, 'cannotStart' | 'crashed'> | undefined,
  ending: string,
  wanted: WantedRelay,
): Error => {
  const report = first?.cannotStart
  const detail = `the process that tried it ${ending}`
  if (report?.unavailable === true) return new RelayUnavailable(report.reason)
  if (first?.crashed === true && wanted === 'auto') return new ProbeCrashed(detail)
  if (first?.crashed === true && wanted === 'linux')
    return new RelayUnavailable(unavailable(detail))
  const problem = report ? `can't start: ${report.reason}` : ending
  return new UsherError('DATA_PLANE', `the data plane ${problem}`)
}

/** How it has ended, after `the data plane`. */
export const describeEnding = ({ error, wasKilled }: RemoteEnding): string =>
  wasKilled ? `was killed: ${error.message}` : error.message

const forked = (program: DataPlaneProgram): ChildProcess => {
  const { file, execArgv, env, launcher = [] } = program
  const [execPath = '', ...args] = [...launcher, process.execPath, ...execArgv]
  try {
    return fork(file, {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      execPath,
      execArgv: args,
      env,
    })
  } catch (error) {
    throw failedStart(error as Error)
  }
}

/** Of faults in native code, and of calls for which a seccomp filter kills. */
const crashSignals: ReadonlySet<NodeJS.Signals> = new Set([
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGILL',
  'SIGSEGV',
  'SIGSYS',
  'SIGTRAP',
])

const failedStart = ({ message }: Error): Error =>
  new Error(`could not be started: ${message}`)
