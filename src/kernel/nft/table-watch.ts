import { type RunTool, ToolError } from '../run-tool.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import type { Monitor, MonitorEvent } from './monitor.ts'
import { listedSizes, type OwnTable } from './own-table.ts'
import { messageOf } from '../../util/usher-error.ts'

export interface TableWatchDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  /** Whether there is to be a table at all. */
  readonly wanted: () => boolean
  readonly damaged: (what: string) => void
  readonly onBlind: (reason: string) => void
}

/** Milliseconds between checks of the table; the second while there is no monitor. */
const calmMs = 60_000
const blindMs = 4000
/** The most between two, while the monitor has nothing to say. */
const seldomMs = 300_000
/** Until elements are counted when something was changed of which nothing was shown. */
const unseenMs = 2000
/** While its owner writes all the time there is no counting them. */
const countAgainMs = 15_000
/** So long a monitor may take to start. */
const monitorStartMs = 1000
/** A check that takes nft so long is not repeated before so many times as long have passed. */
const restTimes = 10
/**
 * So long nft may take for one. It begins anew whenever rules change while it lists them, and
 * does not end while its owner writes all the time.
 */
const checkMs = 10_000
/** What is damaged in one go is reported in one go. */
const reportMs = 100

/**
 * Reports changes of the table by others: at once from the monitor, and by looking now
 * and then, for what it may have missed. A check compares chains, rules and sets; when the
 * monitor was away for a moment, also how many elements there are, which costs nft 230 ms
 * for 10 000.
 */
export const watchTable = (own: OwnTable, deps: TableWatchDeps): (() => void) => {
  const watch = new TableWatch(own, deps)
  return () => watch.stop()
}

class TableWatch {
  readonly #own: OwnTable
  readonly #deps: TableWatchDeps
  readonly #stops: readonly (() => void)[]
  #known: { readonly era: number; readonly text: string } | undefined
  #checkTimer: Timer | undefined
  #reportTimer: Timer | undefined
  #checking = false
  #restUntil = 0
  /** Since the last check began there was something to check for. */
  #isNotified = false
  #checkedAt = 0
  #again = false
  #counting = false
  /** From then on the monitor tells what a count may not have seen. */
  #countAt = -Infinity
  #stopped = false

  constructor(own: OwnTable, deps: TableWatchDeps) {
    this.#own = own
    this.#deps = deps
    const check = (): void => void this.#check()
    this.#stops = [
      own.onChange(({ hidesSets = false }) => {
        if (hidesSets) deps.monitor.renew()
        check()
      }),
      deps.monitor.listen({
        event: event => this.#event(event),
        started: () => {
          // Elements may have been taken out before it had started.
          this.#counting = true
          this.#countAt = deps.clock.now() + monitorStartMs
          this.#checkIn(monitorStartMs)
        },
        ended: reason => {
          this.#counting = true
          deps.onBlind(reason)
          check()
        },
      }),
    ]
    check()
  }

  stop(): void {
    this.#stopped = true
    for (const stop of this.#stops) stop()
    this.#deps.clock.clearTimeout(this.#checkTimer)
    this.#deps.clock.clearTimeout(this.#reportTimer)
  }

  #event(event: MonitorEvent): void {
    this.#isNotified = true
    if (event === 'lost events') {
      this.#counting = true
      return void this.#check()
    }
    if (event === 'unseen') {
      // Soon, and once for many: it may be another program that has much to do.
      if (!this.#counting) this.#checkIn(unseenMs)
      this.#counting = true
      return
    }
    const touch = event.touched.get(this.#own.name)
    if (touch === undefined || touch.stamps.some(stamp => this.#own.isOwn(stamp))) return
    this.#report(`${event.by}: ${touch.what}`)
  }

  #report(what: string): void {
    if (this.#stopped || !this.#deps.wanted()) return
    this.#reportTimer ??= this.#deps.clock.setTimeout(() => {
      this.#reportTimer = undefined
      this.#deps.damaged(what)
    }, reportMs)
  }

  #checkIn(ms: number): void {
    const { clock } = this.#deps
    clock.clearTimeout(this.#checkTimer)
    if (this.#stopped) return
    this.#checkTimer = clock.setTimeout(() => {
      const isDue = this.#isNotified || clock.now() >= this.#checkedAt + seldomMs
      if (isDue || ms !== calmMs) void this.#check()
      else this.#checkIn(calmMs)
    }, ms)
  }

  /** One at a time; asked for in between it is done once more, after a rest. */
  async #check(): Promise<void> {
    const { clock, monitor } = this.#deps
    if (this.#checking) {
      this.#again = true
      return
    }
    const startedAt = clock.now()
    if (startedAt < this.#restUntil) return this.#checkIn(this.#restUntil - startedAt)
    this.#checking = true
    this.#again = false
    this.#isNotified = false
    this.#checkedAt = startedAt
    const { isPlaced, era } = this.#own
    if (isPlaced) await this.#compare(era)
    this.#checking = false
    const rest = restTimes * (clock.now() - startedAt)
    this.#restUntil = clock.now() + rest
    const countMs = clock.now() < this.#countAt ? monitorStartMs : countAgainMs
    const ms = this.#counting ? countMs : calmMs
    const next = this.#again ? 0 : monitor.running ? ms : blindMs
    this.#checkIn(Math.max(next, rest))
  }

  async #compare(era: number): Promise<void> {
    const { writes } = this.#own
    try {
      const args = ['-t', '-j', 'list', 'table', ...this.#own.name.split(' ')]
      const text = await this.#deps.run('nft', args, { timeoutMs: checkMs })
      if (!this.#isStill(era)) return
      if (this.#known?.era === era && this.#known.text !== text) {
        this.#report(`table ${this.#own.name}: chains or rules have changed`)
      }
      this.#known = { era, text }
      const { clock, monitor } = this.#deps
      const isWatched = monitor.running && clock.now() >= this.#countAt
      if (this.#counting && isWatched) await this.#count()
    } catch (error) {
      this.#isNotified = true
      if (!this.#isStill(era)) return
      if (error instanceof ToolError && /No such file/.test(error.stderr)) {
        this.#report(`table ${this.#own.name} is gone`)
      } else if (this.#own.writes === writes || !this.#deps.monitor.running)
        this.#deps.onBlind(messageOf(error))
    }
  }

  /** Put off to the next check when the owner writes meanwhile. */
  async #count(): Promise<void> {
    const { writes } = this.#own
    const args = ['list', 'table', ...this.#own.name.split(' ')]
    const text = await this.#deps.run('nft', args, { timeoutMs: checkMs })
    const listed = await listedSizes(text)
    if (!this.#own.isPlaced || this.#own.writes !== writes) return
    this.#counting = false
    for (const [part, size] of this.#own.sizes) {
      if (listed.get(part) === size) continue
      this.#report(
        `table ${this.#own.name}: ${part} has ${listed.get(part) ?? 'nothing'}, not ${size}`,
      )
      return
    }
  }

  /** The owner may have written in the meantime. */
  #isStill(era: number): boolean {
    return !this.#stopped && this.#own.isPlaced && this.#own.era === era
  }
}
