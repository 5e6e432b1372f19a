import type { Clock, Timer } from '../util/clock.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { Capture, Placement } from './capture.ts'
import type { HostLock } from './host-lock.ts'

export interface ExclusiveDeps {
  readonly clock: Clock
  readonly lock: HostLock
  /**
   * Once traffic is led by this capture: takes out what an earlier Usher has left of other
   * captures, which would lead it elsewhere. Never rejects.
   */
  readonly removeOthers: () => Promise<void>
  /** What was put into the system stays at the end. */
  readonly keeps: boolean
}

/** How long an end waits for what is under way. */
const patienceMs = 3000

/**
 * A capture that changes the host, used by one process of it at a time: a second one waits
 * with its first placement until the earlier one has ended. What is under way comes to its
 * end before `hold` and `close`, and nothing is done to the host after them.
 */
export class ExclusiveCapture implements Capture {
  readonly #capture: Capture
  readonly #deps: ExclusiveDeps
  #isHeld = false
  #isEnding = false
  #isAlone = false
  #underWay: Promise<unknown> = Promise.resolve()

  constructor(capture: Capture, deps: ExclusiveDeps) {
    this.#capture = capture
    this.#deps = deps
  }

  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    return this.#unlessEnding(async () => {
      this.#isHeld ||= await this.#deps.lock.acquire()
      if (!this.#isHeld) throw ended()
      return this.#capture.place(servicePorts)
    })
  }

  steer(placements: readonly Placement[], snapshots: readonly Snapshot[]): Promise<void> {
    return this.#unlessEnding(async () => {
      await this.#capture.steer(placements, snapshots)
      if (!this.#isAlone) await this.#deps.removeOthers()
      this.#isAlone = true
    })
  }

  problems(): readonly Problem[] {
    return this.#capture.problems()
  }

  async hold(): Promise<void> {
    await this.#end()
    if (!this.#isHeld) return
    await this.#patiently(this.#capture.hold())
    // From now on this process touches nothing: the next one need not wait for the drain.
    if (this.#deps.keeps) await this.#deps.lock.release()
  }

  /** What another process has put into the system is not this one's to take out. */
  async close(): Promise<void> {
    await this.#end()
    try {
      if (this.#isHeld) await this.#capture.close()
    } finally {
      this.#isHeld = false
      await this.#deps.lock.release()
    }
  }

  async #end(): Promise<void> {
    this.#isEnding = true
    // Whoever waits for the lock waits no longer.
    if (!this.#isHeld) await this.#deps.lock.release()
    await this.#patiently(this.#underWay)
  }

  /** A tool that hangs is not to cost open connections their time to finish. */
  async #patiently(work: Promise<unknown>): Promise<void> {
    const { clock } = this.#deps
    let timer: Timer | undefined
    const enough = new Promise<void>(resolve => {
      timer = clock.setTimeout(resolve, patienceMs)
    })
    await Promise.race([work, enough]).finally(() => clock.clearTimeout(timer))
  }

  #unlessEnding<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isEnding) return Promise.reject(ended())
    const result = work()
    // Whoever called hears of a failure.
    this.#underWay = result.catch(() => {})
    return result
  }
}

const ended = (): Error => new Error('the capture has ended')
