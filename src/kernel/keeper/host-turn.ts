import type { Problem } from '../../model/snapshot.ts'
import { within } from '../../util/clock.ts'
import { Deferred } from '../../util/deferred.ts'
import type { StoppableTools } from '../run-tool.ts'
import type { HostLock } from './host-lock.ts'
import { UntilDone, type UntilDoneDeps } from './until-done.ts'

export interface HostTurnDeps extends UntilDoneDeps {
  readonly lock: HostLock
  /** By which work changes the host. */
  readonly tools: Pick<StoppableTools, 'stop' | 'allow'>
  /** Whose turn it is, as in `capture`; for the error once it has ended. */
  readonly of: string
  /**
   * Once traffic is led by this process: takes out what an earlier Usher has left of other
   * modes and captures, which would lead it elsewhere; again until nothing is left. Gives what
   * stays in force. Never rejects.
   */
  readonly removeOthers: () => Promise<readonly Problem[]>
}

/** Milliseconds for which an end waits for what is under way, and then for its failure. */
const patienceMs = 3000

/**
 * What changes the host, done by one process of it at a time: a second one waits with its
 * first work until the earlier one has ended. Calls of `work` don't overlap.
 */
export class HostTurn {
  readonly #deps: HostTurnDeps
  #hasBegun = false
  #isEnding = false
  #others: UntilDone | undefined
  #underWay: Promise<unknown> = Promise.resolve()
  /** A tool can't be killed (it hangs in the kernel), and may write yet. */
  #isStuck = false
  #lent: Deferred<void> | undefined

  constructor(deps: HostTurnDeps) {
    this.#deps = deps
  }

  /** Whether it has ever been this process's turn. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Rejects, without a call of `work`, when it ends while it waits, or has ended. */
  take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isEnding) return Promise.reject(this.#ended())
    const result = this.#locked(work)
    // The caller gets the failure.
    this.#underWay = result.catch(() => {})
    return result
  }

  /** As `take`, for work by which traffic is led. */
  lead(work: () => Promise<void>): Promise<void> {
    return this.take(async () => {
      await work()
      if (this.#others !== undefined || this.#isEnding) return
      this.#others = new UntilDone(this.#deps, this.#deps.removeOthers)
      await this.#others.now()
    })
  }

  /**
   * Another process may change the host, once what is under way here has ended. Work that comes from now on
   * waits for what it resolves with, which takes the turn back: to be called when that one does not want it.
   */
  async lend(): Promise<() => void> {
    const before = this.#underWay
    const lent = (this.#lent ??= new Deferred<void>())
    // Where it never comes nothing waits for it.
    lent.promise.catch(() => {})
    // What has not begun waits for the turn itself, which may be that process's.
    if (this.#hasBegun) await before
    this.#hasBegun = false
    await this.#deps.lock.release()
    return () => {
      if (this.#lent === lent) this.#lent = undefined
      lent.resolve()
    }
  }

  /** What of others is in force yet. */
  get problems(): readonly Problem[] {
    return this.#others?.problems ?? []
  }

  /**
   * No work begins any more; resolves when what is under way has ended. What takes too long
   * loses its tools.
   */
  async end(): Promise<void> {
    this.#isEnding = true
    this.#lent?.reject(this.#ended())
    // What waits for the lock waits no longer.
    if (!this.#hasBegun) await this.#deps.lock.release()
    await this.patiently(Promise.all([this.#underWay, this.#others?.stop()]))
  }

  /** Once it has ended: throws what of others stays in force. */
  needAlone(): void {
    const left = this.problems.map(({ field, message }) => `${field}: ${message}`)
    if (left.length > 0) throw new Error(left.join('; '))
  }

  /** After `end`: the next process may; at this one's end, where a tool can't be killed. */
  async giveUp(): Promise<void> {
    if (!this.#isStuck) await this.#deps.lock.release()
  }

  /**
   * A tool that hangs is not to hold up the end, nor to cost open connections their time;
   * nor may it write when it is another process's turn: it is killed, and no other starts
   * before `work` has seen that. Rejects as `work` does, but for a tool that was killed.
   */
  async patiently(work: Promise<unknown>): Promise<void> {
    if (await this.#settles(work)) return
    const { tools } = this.#deps
    this.#isStuck = !(await this.#settles(tools.stop()))
    // Work that hangs by itself gets no more tools.
    if (await this.#settles(work.catch(() => {}))) tools.allow()
  }

  /** False when it takes too long. */
  async #settles(work: Promise<unknown>): Promise<boolean> {
    const settled = work.then(() => true)
    return (await within(this.#deps.clock, patienceMs, settled)) === true
  }

  async #locked<T>(work: () => Promise<T>): Promise<T> {
    if (this.#lent !== undefined) await this.#lent.promise
    if (this.#isEnding) throw this.#ended()
    this.#hasBegun ||= await this.#deps.lock.acquire()
    if (!this.#hasBegun || this.#isEnding) throw this.#ended()
    return work()
  }

  #ended(): Error {
    return new Error(`the ${this.#deps.of} has ended`)
  }
}
