import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { Capture, Placement } from './capture.ts'
import type { HostLock } from './host-lock.ts'

/**
 * A capture that changes the host, used by one process of it at a time: a second one waits
 * with its first placement until the earlier one has ended. What is under way comes to its
 * end before `hold` and `close`, and nothing is done to the host after them.
 */
export class ExclusiveCapture implements Capture {
  readonly #capture: Capture
  readonly #lock: HostLock
  #isHeld = false
  #isEnding = false
  #underWay: Promise<unknown> = Promise.resolve()

  constructor(capture: Capture, lock: HostLock) {
    this.#capture = capture
    this.#lock = lock
  }

  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    return this.#unlessEnding(async () => {
      this.#isHeld ||= await this.#lock.acquire()
      if (!this.#isHeld) throw ended()
      return this.#capture.place(servicePorts)
    })
  }

  steer(placements: readonly Placement[], snapshots: readonly Snapshot[]): Promise<void> {
    return this.#unlessEnding(() => this.#capture.steer(placements, snapshots))
  }

  problems(): readonly Problem[] {
    return this.#capture.problems()
  }

  async hold(): Promise<void> {
    await this.#end()
    if (this.#isHeld) await this.#capture.hold()
  }

  /** What another process has put into the system is not this one's to take out. */
  async close(): Promise<void> {
    await this.#end()
    try {
      if (this.#isHeld) await this.#capture.close()
    } finally {
      this.#isHeld = false
      await this.#lock.release()
    }
  }

  async #end(): Promise<void> {
    this.#isEnding = true
    // Whoever waits for the lock waits no longer.
    if (!this.#isHeld) await this.#lock.release()
    await this.#underWay
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
