import pRetry from 'p-retry'
import { bindKey } from '../counters.ts'
import { errorCode } from '../dial-errors.ts'
import type { FdBudget } from '../fd-budget.ts'
import type { Bind, BindState } from '../relay.ts'

/** A socket that listens. */
export interface Listening {
  close(): void
}

interface Kept {
  state: BindState
  readonly abort: AbortController
  listening: Listening | undefined
}

const firstRetryMs = 250
const longestRetryMs = 10_000

/**
 * The listening sockets of one listener. A port that somebody else holds is tried again
 * with jittered back-off (0.25 s to 10 s) until it is free or no longer wanted.
 */
export class BindSet {
  readonly #budget: Pick<FdBudget, 'take' | 'release'>
  readonly #open: (bind: Bind) => Promise<Listening>
  readonly #changed: (state: BindState) => void
  readonly #kept = new Map<string, Kept>()
  #refused: readonly BindState[] = []

  /** Each listening socket is paid for from `budget`. */
  constructor(
    budget: Pick<FdBudget, 'take' | 'release'>,
    open: (bind: Bind) => Promise<Listening>,
    changed: (state: BindState) => void,
  ) {
    this.#budget = budget
    this.#open = open
    this.#changed = changed
  }

  /** Lets go of all but `binds`, so that others may have them. */
  keepOnly(binds: readonly Bind[]): void {
    this.#refused = []
    this.#closeAllBut(new Set(binds.map(bindKey)), 'no longer wanted')
  }

  /** Listens on exactly `binds`; resolves when each new one was tried once. */
  async listen(binds: readonly Bind[]): Promise<void> {
    this.keepOnly(binds)
    await Promise.all(
      binds.filter(bind => !this.#kept.has(bindKey(bind))).map(bind => this.#keep(bind)),
    )
  }

  /** Listens on nothing: clients are refused by the kernel. `reason` is for the status. */
  refuse(binds: readonly Bind[], reason: string): void {
    this.#closeAllBut(new Set(), reason)
    this.#refused = binds.map(bind => ({ bind, state: 'closed', reason }))
  }

  states(): readonly BindState[] {
    return [...[...this.#kept.values()].map(kept => kept.state), ...this.#refused]
  }

  #keep(bind: Bind): Promise<void> {
    const kept: Kept = {
      state: { bind, state: 'binding' },
      abort: new AbortController(),
      listening: undefined,
    }
    this.#kept.set(bindKey(bind), kept)
    return new Promise(triedOnce => {
      void this.#bind(bind, kept, triedOnce).finally(triedOnce)
    })
  }

  async #bind(bind: Bind, kept: Kept, triedOnce: () => void): Promise<void> {
    const { signal } = kept.abort
    let since = 0
    const enter = (state: BindState): void => {
      if (signal.aborted) return
      kept.state = state
      this.#changed(state)
    }
    const open = async (): Promise<void> => {
      const listening = await this.#openPaid(bind)
      if (signal.aborted) listening.close()
      else kept.listening = listening
    }
    try {
      await pRetry(open, {
        retries: Infinity,
        minTimeout: firstRetryMs,
        maxTimeout: longestRetryMs,
        randomize: true,
        signal,
        onFailedAttempt: ({ error }) => {
          since ||= Date.now()
          enter({ bind, state: 'failed', error: errorCode(error), since })
          triedOnce()
        },
      })
      enter({ bind, state: 'listening' })
    } catch (error) {
      // An abort means that the bind is no longer wanted; anything else is news.
      enter({
        bind,
        state: 'failed',
        error: errorCode(error as Error),
        since: Date.now(),
      })
    }
  }

  /** A listening socket that gives its descriptor back to the budget when it is closed. */
  async #openPaid(bind: Bind): Promise<Listening> {
    if (!this.#budget.take(1)) throw noDescriptor()
    try {
      const listening = await this.#open(bind)
      return {
        close: () => {
          listening.close()
          this.#budget.release(1)
        },
      }
    } catch (error) {
      this.#budget.release(1)
      throw error
    }
  }

  #closeAllBut(wanted: ReadonlySet<string>, reason: string): void {
    for (const [key, { abort, listening, state }] of this.#kept) {
      if (wanted.has(key)) continue
      this.#kept.delete(key)
      abort.abort()
      if (listening === undefined) continue
      listening.close()
      this.#changed({ bind: state.bind, state: 'closed', reason })
    }
  }
}

const noDescriptor = (): NodeJS.ErrnoException =>
  Object.assign(new Error('too few file descriptors; raise the limit (ulimit -n)'), {
    code: 'EMFILE',
  })
