import { setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { joinHostPort } from '../util/ip.ts'
import { errorOf, hasCode, UsherError, errorCode } from '../util/usher-error.ts'
import { bindKey, type Bind, type BindState } from './relay.ts'

/** A socket that has its address. */
export interface Listening {
  close(): void
  /** The kernel refuses clients from now on, and nobody else gets the port. */
  pause?(): void
  /** Listens after a pause; throws as opening does. */
  resume?(): void
  /** Why nobody can come to it any more; '' while they can. */
  missing?(): string
}

interface Kept {
  state: BindState
  /** It is to be kept, and not to listen. */
  readonly idle: BindState | undefined
  readonly abort: AbortController
  listening: Listening | undefined
  /** `listen` has to do something for it. */
  isDue: boolean
}

const firstRetryMs = 250
const longestRetryMs = 10_000
/** How often it is looked whether a socket's file is still there. */
const checkMs = 2000

/**
 * The listening sockets of one listener. A port that is taken is tried again
 * with jittered back-off (0.25 s to 10 s) until it is free or no longer wanted.
 */
export class BindSet {
  readonly #open: (bind: Bind, isIdle: boolean) => Promise<Listening>
  readonly #changed: (state: BindState) => void
  readonly #kept = new Map<string, Kept>()
  #closed: readonly BindState[] = []
  /** Until something changes: they are asked for again and again. */
  #states: readonly BindState[] | undefined

  constructor(
    open: (bind: Bind, isIdle: boolean) => Promise<Listening>,
    changed: (state: BindState) => void,
  ) {
    this.#open = open
    this.#changed = changed
  }

  /**
   * Lets go at once of all but `binds`, so that others may have them. `closed` are the
   * addresses at which the kernel is to refuse clients, with the reason for the status. Of
   * those `idle` stay bound: an outgoing connection could take their ports otherwise, for as
   * long as it lasts.
   */
  want(
    binds: readonly Bind[],
    closed: readonly BindState[] = [],
    idle: readonly BindState[] = [],
  ): void {
    this.#states = undefined
    this.#closed = closed
    const wanted = new Map<string, BindState | undefined>([
      ...idle.map(state => [bindKey(state.bind), state] as const),
      ...binds.map(bind => [bindKey(bind), undefined] as const),
    ])
    this.#closeAllBut(wanted)
    for (const { bind } of [...binds.map(one => ({ bind: one })), ...idle]) {
      const key = bindKey(bind)
      const before = this.#kept.get(key)
      const now = wanted.get(key)
      if (before === undefined || (before.idle === undefined) !== (now === undefined))
        this.#kept.set(key, this.#turned(bind, before, now))
      else if (now !== undefined && before.state.state === 'closed') before.state = now
    }
  }

  /** Listens on what is wanted; resolves when each new bind was tried once. */
  async listen(): Promise<void> {
    const due = [...this.#kept.values()].filter(({ isDue }) => isDue)
    await Promise.all(due.map(kept => this.#keep(kept)))
  }

  /** What is open there is closed, and it is opened again; tried again as any other. */
  reopen(bind: Bind): void {
    const key = bindKey(bind)
    const before = this.#kept.get(key)
    if (before?.listening === undefined) return
    before.abort.abort(unwanted)
    before.listening.close()
    const kept = this.#turned(bind, undefined, before.idle)
    this.#kept.set(key, kept)
    this.#states = undefined
    void this.#keep(kept)
  }

  /** The same list until one of them changes. */
  states(): readonly BindState[] {
    return (this.#states ??= this.#statesNow())
  }

  #statesNow(): readonly BindState[] {
    const kept = [...this.#kept.values()]
    const closed = this.#closed.filter(({ bind }) => !this.#kept.has(bindKey(bind)))
    return [...kept.map(({ state }) => state), ...closed]
  }

  /** One that is to listen from now on, or no longer. */
  #turned(bind: Bind, before: Kept | undefined, idle: BindState | undefined): Kept {
    before?.abort.abort(unwanted)
    const { listening } = before ?? {}
    const isPaused = idle !== undefined && listening !== undefined
    if (isPaused) {
      listening.pause?.()
      this.#changed(idle)
    }
    const state = idle ?? { bind, state: 'binding' }
    return { state, idle, abort: new AbortController(), listening, isDue: !isPaused }
  }

  #keep(kept: Kept): Promise<void> {
    kept.isDue = false
    return new Promise(triedOnce => {
      void this.#bind(kept.state.bind, kept, triedOnce).finally(triedOnce)
    })
  }

  async #bind(bind: Bind, kept: Kept, triedOnce: () => void): Promise<void> {
    const { signal } = kept.abort
    const { idle } = kept
    let since = 0
    const enter = (state: BindState): void => {
      if (signal.aborted) return
      kept.state = state
      this.#states = undefined
      this.#changed(state)
    }
    const fail = (error: Error): void => {
      since ||= Date.now()
      const state = { bind, state: 'failed', error: errorText(error), since } as const
      enter(idle === undefined ? state : { ...state, isIdle: true })
    }
    const open = async (): Promise<void> => {
      if (kept.listening !== undefined) return kept.listening.resume?.()
      const listening = await this.#open(bind, idle !== undefined)
      if (signal.aborted) listening.close()
      else kept.listening = listening
    }
    try {
      for (;;) {
        await pRetry(open, {
          retries: Infinity,
          minTimeout: firstRetryMs,
          maxTimeout: longestRetryMs,
          randomize: true,
          signal,
          onFailedAttempt: ({ error }) => {
            fail(error)
            triedOnce()
          },
        })
        if (idle === undefined) enter({ bind, state: 'listening' })
        else if (since > 0) enter(idle)
        triedOnce()
        const { listening } = kept
        if (listening?.missing === undefined) return
        let problem = listening.missing()
        for (; problem === ''; problem = listening.missing())
          await sleep(checkMs, undefined, { signal, ref: false })
        listening.close()
        kept.listening = undefined
        since = 0
        fail(new UsherError('CANNOT_LISTEN', problem))
      }
    } catch (error) {
      // An abort means that the bind is no longer wanted; anything else is news.
      fail(errorOf(error))
    }
  }

  #closeAllBut(wanted: ReadonlyMap<string, unknown>): void {
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

/** What went wrong last with a listener, after a bind of it has changed; `before`: '' for nothing. */
export const lastErrorAfter = (before: string, state: BindState): string => {
  const where = `listen on ${joinHostPort(state.bind.address, state.bind.port)}: `
  if (state.state === 'failed') return where + state.error
  return state.state === 'listening' && before.startsWith(where) ? '' : before
}

/** For a port the errno is enough; for a file the message has more. */
const errorText = (error: Error): string =>
  hasCode(error, 'CANNOT_LISTEN') ? error.message : errorCode(error)

/** One for all: an abort makes an exception with a stack otherwise. */
const unwanted = new Error('no longer wanted')
