import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import { familyWords, tableName } from './words.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { Monitor } from './monitor.ts'
import type { MonitorEvent } from './monitor-events.ts'

/** What the watch must know of the table's owner. */
export interface OwnTable {
  readonly family: IpFamily
  /** Whether the table is in the kernel as the owner wants it; not while it writes. */
  readonly placed: boolean
  /** Another number after each change of chains or sets by the owner. */
  readonly era: number
  isOwn(stamp: string): boolean
  /** Calls after each change of chains or sets; until the returned function is called. */
  onOwnChange(callback: () => void): () => void
}

export interface TableWatchDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  readonly damaged: (what: string) => void
  readonly onBlind: (reason: string) => void
}

/** Milliseconds between looks at the table; the second while there is no monitor. */
const calmMs = 60_000
const blindMs = 4000
/** So long a monitor may take until it hears. */
const monitorStartMs = 1000
/** What is damaged in one go is reported in one go. */
const reportMs = 100

/**
 * Reports changes of the table by others: at once from the monitor, and by looking now
 * and then, for what it may have missed. A look compares chains, rules and sets without
 * elements, whose listing costs too much (230 ms for 10 000).
 */
export const watchTable = (own: OwnTable, deps: TableWatchDeps): (() => void) => {
  const watch = new TableWatch(own, deps)
  return () => watch.stop()
}

class TableWatch {
  readonly #own: OwnTable
  readonly #deps: TableWatchDeps
  readonly #table: string
  readonly #stops: readonly (() => void)[]
  #known: { readonly era: number; readonly text: string } | undefined
  #lookTimer: Timer | undefined
  #reportTimer: Timer | undefined
  #looking = false
  #again = false
  #stopped = false

  constructor(own: OwnTable, deps: TableWatchDeps) {
    this.#own = own
    this.#deps = deps
    this.#table = `${familyWords(own.family).family} ${tableName}`
    const look = (): void => void this.#look()
    this.#stops = [
      own.onOwnChange(look),
      deps.monitor.listen({
        event: event => this.#event(event),
        started: () => this.#lookIn(monitorStartMs),
        ended: why => {
          deps.onBlind(why)
          look()
        },
      }),
    ]
    look()
  }

  stop(): void {
    this.#stopped = true
    for (const stop of this.#stops) stop()
    this.#deps.clock.clearTimeout(this.#lookTimer)
    this.#deps.clock.clearTimeout(this.#reportTimer)
  }

  #event(event: MonitorEvent): void {
    if (event === 'lost events') return void this.#look()
    const touch = event.touched.get(this.#table)
    if (touch === undefined || touch.stamps.some(stamp => this.#own.isOwn(stamp))) return
    this.#report(`${event.by}: ${touch.what}`)
  }

  #report(what: string): void {
    if (this.#stopped) return
    this.#reportTimer ??= this.#deps.clock.setTimeout(() => {
      this.#reportTimer = undefined
      this.#deps.damaged(what)
    }, reportMs)
  }

  #lookIn(ms: number): void {
    const { clock } = this.#deps
    clock.clearTimeout(this.#lookTimer)
    if (this.#stopped) return
    this.#lookTimer = clock.setTimeout(() => void this.#look(), ms)
  }

  /** One at a time; asked for in between it is done once more. */
  async #look(): Promise<void> {
    if (this.#looking) {
      this.#again = true
      return
    }
    this.#looking = true
    do {
      this.#again = false
      const { placed, era } = this.#own
      if (placed) await this.#compare(era)
    } while (this.#again && !this.#stopped)
    this.#looking = false
    this.#lookIn(this.#deps.monitor.running ? calmMs : blindMs)
  }

  async #compare(era: number): Promise<void> {
    try {
      const args = ['-t', '-j', 'list', 'table', ...this.#table.split(' ')]
      const text = await this.#deps.run('nft', args)
      if (!this.#isStill(era)) return
      if (this.#known?.era === era && this.#known.text !== text) {
        this.#report(`table ${this.#table}: chains or rules have changed`)
      }
      this.#known = { era, text }
    } catch (error) {
      if (!this.#isStill(era)) return
      if (error instanceof ToolError && /No such file/.test(error.stderr)) {
        this.#report(`table ${this.#table} is gone`)
      } else this.#deps.onBlind(error instanceof Error ? error.message : String(error))
    }
  }

  /** The owner may have written in the meantime. */
  #isStill(era: number): boolean {
    return !this.#stopped && this.#own.placed && this.#own.era === era
  }
}
