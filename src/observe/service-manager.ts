import type { Notify } from './notify-socket.ts'
import { printable } from '../util/printable.ts'

export interface ServiceManagerDeps {
  /** Undefined: there is none, or it wants no messages. */
  readonly notify: Notify | undefined
  /** How it goes, in a line. */
  readonly sentence: () => string
  /** What is not, a restart may mend. */
  readonly isLive: () => boolean
  /** Milliseconds without a sign of life after which it is started again; undefined: never. */
  readonly watchdogMs: number | undefined
}

const checkEveryMs = 2000
/** Beyond the drain, to close what is left. */
const closeMs = 10_000
const longestSentence = 300

/** For how long WATCHDOG_USEC lets this process be silent. What it starts must not take it for its own. */
export const watchdogMs = (env: NodeJS.ProcessEnv): number | undefined => {
  const { WATCHDOG_USEC: microseconds, WATCHDOG_PID: pid } = env
  delete env['WATCHDOG_USEC']
  delete env['WATCHDOG_PID']
  const ms = Number(microseconds ?? 0) / 1000
  const isForThisProcess = pid === undefined || pid === String(process.pid)
  return ms > 0 && isForThisProcess ? ms : undefined
}

/** What CLOCK_MONOTONIC says, which Node's clock of high resolution is. */
const monotonic = (): string => String(process.hrtime.bigint() / 1000n)

/**
 * Tells systemd how this process is (sd_notify(3)): when it serves, reads again or ends, in which health
 * it is, and that it lives. The last comes from a timer of the main thread, so that an
 * event loop that hangs says nothing; and neither does one that is not live.
 */
export class ServiceManager {
  readonly #deps: ServiceManagerDeps
  readonly #notify: Notify
  #timer: NodeJS.Timeout | undefined
  #lastStatus = ''
  #isReady = false
  #reloads = 0
  #isStopping = false
  #replaced: Promise<void> | undefined

  constructor(deps: ServiceManagerDeps) {
    this.#deps = deps
    this.#notify = deps.notify ?? (() => Promise.resolve())
    if (deps.notify === undefined) return
    const { watchdogMs: silence = Number.POSITIVE_INFINITY } = deps
    this.#timer = setInterval(() => this.#check(), Math.min(checkEveryMs, silence / 3))
    // A start that fails ends the process.
    this.#timer.unref()
    this.#check()
  }

  /** The first state is served. */
  ready(): void {
    this.#isReady = true
    void this.#notify('READY=1', ...this.#status())
  }

  /** It serves as before, until `done` settles. */
  async whileReloading(done: Promise<void>): Promise<void> {
    this.#reloads += 1
    if (this.#isReady && !this.#isStopping)
      void this.#notify('RELOADING=1', `MONOTONIC_USEC=${monotonic()}`)
    await Promise.allSettled([done])
    this.#reloads -= 1
    if (this.#isReady && !this.#isStopping && this.#reloads === 0) this.ready()
  }

  /** That process is the service from now on: this one ends, and says no more. */
  replacedBy(pid: number): void {
    clearInterval(this.#timer)
    this.#replaced = this.#notify(`MAINPID=${pid}`)
  }

  /** It ends, in `ms` milliseconds at most and what closing takes. */
  stopping(ms: number): void {
    this.#isStopping = true
    void this.#notify(
      'STOPPING=1',
      `EXTEND_TIMEOUT_USEC=${(ms + closeMs) * 1000}`,
      `STATUS=Stopping: draining for up to ${Math.ceil(ms / 1000)} s`,
    )
  }

  /** Sends no more; resolves when all has been sent. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await (this.#replaced ?? this.#notify('STATUS=Stopped'))
  }

  #check(): void {
    const { watchdogMs: silence, isLive } = this.#deps
    const alive =
      silence !== undefined && (this.#isStopping || isLive()) ? ['WATCHDOG=1'] : []
    const lines = [...alive, ...this.#status()]
    if (lines.length > 0) void this.#notify(...lines)
  }

  /** Nothing while it is as before. */
  #status(): string[] {
    const sentence = printable(this.#deps.sentence(), longestSentence)
    if (this.#isStopping || sentence === this.#lastStatus) return []
    this.#lastStatus = sentence
    return [`STATUS=${sentence}`]
  }
}
