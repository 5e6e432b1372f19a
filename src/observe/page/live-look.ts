import type { Clock } from '../../util/clock.ts'
import { Deferred } from '../../util/deferred.ts'
import { wait } from '../../util/wait.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { ProcessWatch } from '../process-metrics.ts'
import {
  type Entry,
  entriesInTurn,
  notByClient,
  type StatusInput,
} from '../status-document.ts'
import { event, LiveRows } from './live-rows.ts'
import { pageHead, pageTick } from './page-head.ts'
import { isPlain, rowText } from './row-text.ts'

export interface LiveLookDeps {
  /** All there is to know now; the relay is asked for it. */
  readonly status: () => Promise<StatusInput>
  readonly clock: Clock
}

/** Milliseconds from the end of a look to the next one. */
const everyMs = 1000

/** Looks at everything once a second, for all who watch; a slice at a time. */
export class LiveLook {
  readonly #deps: LiveLookDeps
  readonly #rows = new LiveRows()
  /** Of the last look that is complete; 0: there was none. */
  #number = 0
  #head = { json: '', changedAt: 0 }
  #tick = ''
  #taken = new Deferred<void>()
  #input: StatusInput | undefined

  constructor(deps: LiveLookDeps) {
    this.#deps = deps
  }

  get number(): number {
    return this.#number
  }

  /** What the last look has found. */
  get input(): StatusInput | undefined {
    return this.#input
  }

  /** Resolves when there is a look later than `number`. */
  async later(number: number): Promise<void> {
    if (this.#number <= number) await this.#taken.promise
  }

  /** Until `signal` aborts. Rejects when a look fails. */
  async run(signal: AbortSignal): Promise<void> {
    const watch = new ProcessWatch()
    try {
      while (!signal.aborted) {
        await this.#take(watch)
        const taken = this.#taken
        this.#taken = new Deferred()
        taken.resolve()
        await wait(this.#deps.clock, everyMs, signal)
      }
    } finally {
      watch.close()
    }
  }

  /** Events that tell one who was told of `since` last of the look `number`. */
  *changes(since: number, number: number): Generator<string> {
    if (this.#head.changedAt > since) yield event('head', this.#head.json)
    yield* this.#rows.changes(since, number)
    if (number > 0) yield event('tick', this.#tick)
  }

  async #take(watch: ProcessWatch): Promise<void> {
    const { status, clock } = this.#deps
    const number = this.#number + 1
    const input = await status()
    const look = { at: Math.round(clock.now()), now: Date.now(), failedListeners: 0 }
    await forEachYielding(await entriesInTurn(input), entry => {
      look.failedListeners += failedBinds(entry)
      const [{ family, key }] = entry
      const identity = `${family} ${key}`
      // What checks say of an endpoint that is missing may change by itself.
      const madeOf = isPlain(entry) ? entry : []
      if (this.#rows.isSame(number, identity, madeOf)) return
      const text = JSON.stringify(rowText(entry)).slice(1, -1)
      this.#rows.see(number, identity, text, countsOf(entry), madeOf)
    })
    this.#rows.seen(number)
    const json = JSON.stringify(pageHead(input))
    if (json !== this.#head.json) this.#head = { json, changedAt: number }
    this.#tick = JSON.stringify(pageTick(input, await watch.read(), look))
    this.#input = input
    this.#number = number
  }
}

const failedBinds = ([, , listener]: Entry): number =>
  listener?.binds.filter(({ state }) => state === 'failed').length ?? 0

/** In the order of `Events.counts`. */
const countsOf = ([, , listener]: Entry): readonly number[] => {
  if (listener === undefined) return uncounted
  const { active, accepted, failed, dialRetries, bytesToBackend, bytesToClient } =
    listener.counters
  const failures = Object.values(notByClient(failed)).reduce((sum, n) => sum + n, 0)
  return [active, accepted, failures, dialRetries, bytesToBackend, bytesToClient]
}

const uncounted: readonly number[] = [0, 0, 0, 0, 0, 0]
