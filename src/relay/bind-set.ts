import pRetry from 'p-retry'
import { errorCode } from '../util/error-code.ts'
import { errorOf, hasCode } from '../util/usher-error.ts'
import type { FdBudget } from './fd-budget.ts'
import { bindKey, type Bind, type BindState } from './relay.ts'

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
 * The listening sockets of one listener. A port that is taken is tried again
 * with jittered back-off (0.25 s to 10 s) until it is free or no longer wanted.
 */
export class BindSet {
  readonly #budget: Pick<FdBudget, 'takeListening' | 'releaseListening'>
  readonly #open: (bind: Bind) => Promise<Listening>
  readonly #changed: (state: BindState) => void
  readonly #kept = new Map<string, Kept>()
  #wanted: readonly Bind[] = []
  #closed: readonly BindState[] = []

  /** Each listening socket is paid for from `budget`. */
  constructor(
    budget: Pick<FdBudget, 'takeListening' | 'releaseListening'>,
    open: (bind: Bind) => Promise<Listening>,
    changed: (state: BindState) => void,
  ) {
    this.#budget = budget
    this.#open = open
    this.#changed = changed
  }

  /**
   * Lets go at once of all but `binds`, so that others may have them. `closed` are the
   * addresses at which the kernel is to refuse clients, with the reason for the status.
   */
  want(binds: readonly Bind[], closed: readonly BindState[] = []): void {
    this.#wanted = binds
    this.#closed = closed
    this.#closeAllBut(new Set(binds.map(bindKey)))
  }

  /** Listens on what is wanted; resolves when each new bind was tried once. */
  async listen(): Promise<void> {
    const missing = this.#wanted.filter(bind => !this.#kept.has(bindKey(bind)))
    await Promise.all(missing.map(bind => this.#keep(bind)))
  }

  states(): readonly BindState[] {
    return [...[...this.#kept.values()].map(kept => kept.state), ...this.#closed]
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
          enter({ bind, state: 'failed', error: why(error), since })
          triedOnce()
        },
      })
      enter({ bind, state: 'listening' })
    } catch (error) {
      // An abort means that the bind is no longer wanted; anything else is news.
      enter({
        bind,
        state: 'failed',
        error: why(errorOf(error)),
        since: Date.now(),
      })
    }
  }

  /** A listening socket that gives its descriptor back to the budget when it is closed. */
  async #openPaid(bind: Bind): Promise<Listening> {
    if (!this.#budget.takeListening()) throw noDescriptor()
    try {
      const listening = await this.#open(bind)
      return {
        close: () => {
          listening.close()
          this.#budget.releaseListening()
        },
      }
    } catch (error) {
      this.#budget.releaseListening()
      throw error
    }
  }

  #closeAllBut(wanted: ReadonlySet<string>): void {
    for (const [key, { abort, listening, state }] of this.#kept) {
      if (wanted.has(key)) continue
      this.#kept.delete(key)
      abort.abort(unwanted)
      if (listening === undefined && state.state !== 'failed') continue
      listening?.close()
      this.#changed(
        this.#closed.find(({ bind }) => bindKey(bind) === key) ?? {
          bind: state.bind,
          state: 'closed',
          reason: 'no longer wanted',
        },
      )
    }
  }
}

/** Of a port an errno says it all; of a file there is more to say. */
const why = (error: Error): string =>
  hasCode(error, 'CANNOT_LISTEN') ? error.message : errorCode(error)

/** One for all: an abort makes an exception with a stack otherwise. */
const unwanted = new Error('no longer wanted')

const noDescriptor = (): NodeJS.ErrnoException =>
  Object.assign(new Error('too few file descriptors; raise the limit (ulimit -n)'), {
    code: 'EMFILE',
  })
