import { withoutLoopback } from '../../mode/hybrid-mode.ts'
import { pastSteps, pastStepMs } from '../../page/wire.ts'
import type { ListenerStats, RelayStats } from '../../relay/relay.ts'
import { type Clock, wait } from '../../util/clock.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { failedOf } from '../port-view.ts'
import type { Log } from '../log.ts'

export interface RecentRatesDeps {
  /** Undefined in the kernel modes, which count nothing. */
  readonly stats: () => Promise<Pick<RelayStats, 'listeners'> | undefined>
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
}

/** A look at thousands of listeners takes long: it is followed by so many times that, and counts for more steps. */
const restFactor = 300
const longestPauseMs = 6 * pastStepMs

/** New connections and failures a second of each step in turn, oldest first. */
type Past = Float32Array

/**
 * The last two minutes of each ServicePort that has had connections in them, whether or not anyone watches:
 * the page is opened after something went wrong. Listeners that have counted nothing are the same
 * objects as before, so that those of thousands that are quiet cost a walk over a list.
 */
export class RecentRates {
  readonly #deps: RecentRatesDeps
  readonly #stop = new AbortController()
  /** As of the last look. */
  readonly #listeners = new Map<string, ListenerStats>()
  #lookedAt: number | undefined
  /** Steps so far, and until when they are: a look may come in the middle of one. */
  #steps = 0
  #stepsUntil = 0
  readonly #pasts = new Map<string, Past>()
  #texts: ReadonlyMap<string, string> | undefined

  constructor(deps: RecentRatesDeps) {
    this.#deps = deps
  }

  /** Until `close`. */
  async run(): Promise<void> {
    const { clock, log } = this.#deps
    const { signal } = this.#stop
    for (let pause = pastStepMs; ;) {
      await wait(clock, pause, signal)
      if (signal.aborted) return
      const from = clock.now()
      await this.#look().catch((err: unknown) =>
        log.warn({ err }, 'the rates of the last seconds are missing on the live page'),
      )
      const took = clock.now() - from
      pause = Math.min(longestPauseMs, Math.max(pastStepMs, took * restFactor))
    }
  }

  close(): void {
    this.#stop.abort()
  }

  /** JSON by the listener's id; the same map until there is a new step. */
  get texts(): ReadonlyMap<string, string> {
    return (this.#texts ??= new Map(
      // Of the time before the start nothing is known.
      Array.from(this.#pasts, ([id, past]) => [
        id,
        textOf(past.subarray(-2 * this.#steps)),
      ]),
    ))
  }

  async #look(): Promise<void> {
    const { stats, clock } = this.#deps
    const { listeners = [] } = (await stats()) ?? {}
    const now = clock.now()
    const seconds = (now - (this.#lookedAt ?? now)) / 1000
    const steps = this.#stepsTo(now)
    this.#lookedAt = now
    const known = this.#listeners
    let seen = 0
    for (const past of this.#pasts.values())
      past.copyWithin(0, 2 * steps).fill(0, past.length - 2 * steps)
    await forEachYielding(listeners, listener => {
      seen += 1
      const before = known.get(listener.id)
      if (before === listener) return
      known.set(listener.id, listener)
      if (seconds > 0 && listener.wanted) this.#add(listener, before, { seconds, steps })
    })
    if (seen < known.size) {
      const ids = new Set(Array.from(listeners, ({ id }) => id))
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id)
    }
    // Of a Service that the kernel carries, those of its node ports on loopback say too little.
    for (const [id, past] of this.#pasts)
      if (!known.has(id) || past.every(rate => rate === 0)) this.#pasts.delete(id)
    this.#texts = undefined
  }

  /** How many more there are. */
  #stepsTo(now: number): number {
    if (this.#lookedAt === undefined) {
      this.#stepsUntil = now
      return 0
    }
    const due = Math.max(1, Math.floor((now - this.#stepsUntil) / pastStepMs))
    this.#stepsUntil += due * pastStepMs
    const steps = Math.min(pastSteps, due)
    this.#steps = Math.min(pastSteps, this.#steps + steps)
    return steps
  }

  #add(
    now: ListenerStats,
    before: ListenerStats | undefined,
    { seconds, steps }: { readonly seconds: number; readonly steps: number },
  ): void {
    const accepted = now.counters.accepted - (before?.counters.accepted ?? 0)
    const failed =
      failedOf(now.counters) - (before === undefined ? 0 : failedOf(before.counters))
    if (accepted <= 0 && failed <= 0) return
    const id = withoutLoopback(now.id)
    const past = this.#pasts.get(id) ?? new Float32Array(2 * pastSteps)
    this.#pasts.set(id, past)
    for (let at = past.length - 2 * steps; at < past.length; at += 2) {
      past[at] = (past[at] ?? 0) + Math.max(0, accepted) / seconds
      past[at + 1] = (past[at + 1] ?? 0) + Math.max(0, failed) / seconds
    }
  }
}

const textOf = (past: Past): string =>
  `[${Array.from(past, rate => Number(rate.toPrecision(3))).join(',')}]`
