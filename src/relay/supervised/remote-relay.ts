import type { AnswerTo, Asked, Question } from '../questions.ts'
import type { DrainResult, RelayListener } from '../relay.ts'
import { listenerChanges } from '../listener-changes.ts'
import type { Remote } from '../remote/remote.ts'
import type { Look } from './last-known.ts'
import type { Call, DataPlaneSelf, StatsPage } from './messages.ts'
import type { PackedListener } from './packed-stats.ts'

/** Listeners that a process which has none yet opens together. */
const atOnce = 1000

/** Listeners and endpoints in one message: about a millisecond's work at either end. */
const partWeight = 500

/**
 * The relay in one process of the data plane. Its calls reject with `RemoteGone` when
 * the process ends before it has answered.
 */
export class RemoteRelay {
  readonly #remote: Remote<Call, DataPlaneSelf>
  /** What the process knows. */
  #sent: readonly RelayListener[] = []
  #looks = 0
  /** The figures of its listeners as they were told last, by id. */
  readonly #figures = new Map<string, PackedListener>()
  #turn: Promise<unknown> = Promise.resolve()

  constructor(remote: Remote<Call, DataPlaneSelf>) {
    this.#remote = remote
  }

  /** One call after the other; only what has changed since the last one travels. */
  apply(listeners: readonly RelayListener[]): Promise<void> {
    const done = this.#turn.then(() => this.#apply(listeners))
    this.#turn = done.catch(() => {}) // Its caller hears of it.
    return done
  }

  /**
   * Page by page, so that neither end is held up by 10 000 listeners; only what has changed since the
   * last one travels. Rejects after the next page when it is given up.
   */
  async look(givenUp: AbortSignal): Promise<Look> {
    this.#looks += 1
    const look = this.#looks
    for (;;) {
      const page = (await this.#remote.call({ kind: 'stats', look })) as StatsPage
      // Also of a look that is given up: they are not told again.
      for (const one of page.listeners) this.#figures.set(one.id, one)
      for (const id of page.gone) this.#figures.delete(id)
      givenUp.throwIfAborted()
      if (page.last) return { listeners: [...this.#figures.values()], whole: page.whole }
    }
  }

  async ask<Q extends Question>(question: Q, asked: Asked<Q>): Promise<AnswerTo<Q>> {
    return (await this.#remote.call({ kind: 'ask', question, asked })) as AnswerTo<Q>
  }

  async drain(ms: number): Promise<DrainResult> {
    return (await this.#remote.call({ kind: 'drain', ms })) as DrainResult
  }

  async #apply(listeners: readonly RelayListener[]): Promise<void> {
    const isFirst = this.#sent.length === 0
    let waiting = 0
    // An answer to each part before the next one is made: so nothing piles up.
    for (const part of changesInParts(this.#sent, listeners)) {
      await this.#remote.call(part)
      waiting += part.changed.length
      // Of 10 000 the first need not wait for the last.
      if (!isFirst || waiting < atOnce) continue
      await this.#remote.call({ kind: 'apply' })
      waiting = 0
    }
    this.#sent = listeners
    await this.#remote.call({ kind: 'apply' })
  }
}

/** The changes in parts; at least one, so that a change of nothing is one too. */
export function* changesInParts(
  before: readonly RelayListener[],
  after: readonly RelayListener[],
): Generator<Extract<Call, { readonly kind: 'change' }>> {
  const { gone, changed } = listenerChanges(before, after)
  let part: RelayListener[] = []
  let weight = 0
  yield { kind: 'change', gone: gone.map(({ id }) => id), changed: [] }
  for (const listener of changed) {
    part.push(listener)
    weight += 1 + listener.fronts.length + listener.endpoints.length
    if (weight < partWeight) continue
    yield { kind: 'change', gone: [], changed: part }
    part = []
    weight = 0
  }
  if (part.length > 0) yield { kind: 'change', gone: [], changed: part }
}
