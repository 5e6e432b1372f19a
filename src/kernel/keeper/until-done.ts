import type { Problem } from '../../model/snapshot.ts'
import { Backoff } from '../../util/backoff.ts'
import type { Clock, Timer } from '../../util/clock.ts'

export interface UntilDoneDeps {
  readonly clock: Clock
  /** Asks for a sync: it goes by what was done, and reports what is wrong. */
  readonly resync: () => void
}

const [firstMs, mostMs] = [1000, 30_000]

/**
 * Work that is tried again, with growing pauses, until it is done. What is wrong is a problem
 * meanwhile, and a sync follows each attempt that changed it.
 */
export class UntilDone {
  readonly #deps: UntilDoneDeps
  readonly #attempt: () => Promise<readonly Problem[]>
  readonly #backoff = new Backoff({ firstMs, mostMs })
  #problems: readonly Problem[] = []
  #timer: Timer | undefined
  #underWay: Promise<void> = Promise.resolve()
  #isStopped = false

  /** `attempt` gives what is wrong yet; nothing: it is done. It never rejects. */
  constructor(deps: UntilDoneDeps, attempt: () => Promise<readonly Problem[]>) {
    this.#deps = deps
    this.#attempt = attempt
  }

  /** As of the last attempt. */
  get problems(): readonly Problem[] {
    return this.#problems
  }

  /** The first attempt; later ones follow by themselves. */
  now(): Promise<void> {
    return (this.#underWay = this.#run())
  }

  /** The first attempt comes after a pause, unless one is to come anyway; until then `problems` are wrong. */
  later(problems: readonly Problem[]): void {
    if (this.#problems.length > 0 || this.#isStopped) return
    this.#backoff.reset()
    this.#problems = problems
    this.#schedule()
  }

  /** No attempt begins any more; resolves when one that is under way has ended. */
  stop(): Promise<void> {
    this.#isStopped = true
    this.#deps.clock.clearTimeout(this.#timer)
    return this.#underWay
  }

  async #run(): Promise<void> {
    this.#problems = await this.#attempt()
    if (this.#problems.length > 0 && !this.#isStopped) this.#schedule()
  }

  #schedule(): void {
    const { clock } = this.#deps
    clock.clearTimeout(this.#timer)
    this.#timer = clock.setTimeout(() => void this.#again(), this.#backoff.next())
    this.#timer.unref?.()
  }

  async #again(): Promise<void> {
    const before = JSON.stringify(this.#problems)
    await this.now()
    if (JSON.stringify(this.#problems) !== before) this.#deps.resync()
  }
}
