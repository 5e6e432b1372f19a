import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { Capture, Placement } from './capture.ts'
import type { HostLock } from './host-lock.ts'

/**
 * A capture that changes the host, used by one process of it at a time: a second one waits
 * with its first placement until the earlier one has ended.
 */
export class ExclusiveCapture implements Capture {
  readonly #capture: Capture
  readonly #lock: HostLock
  #isHeld = false

  constructor(capture: Capture, lock: HostLock) {
    this.#capture = capture
    this.#lock = lock
  }

  /** Rejects when `close` was called while it waited. */
  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    this.#isHeld ||= await this.#lock.acquire()
    if (!this.#isHeld) throw new Error('ended before the Usher that was here did')
    return this.#capture.place(servicePorts)
  }

  steer(placements: readonly Placement[], snapshots: readonly Snapshot[]): Promise<void> {
    return this.#capture.steer(placements, snapshots)
  }

  problems(): readonly Problem[] {
    return this.#capture.problems()
  }

  hold(): Promise<void> {
    return this.#isHeld ? this.#capture.hold() : Promise.resolve()
  }

  /** What another process has put into the system is not this one's to take out. */
  async close(): Promise<void> {
    try {
      if (this.#isHeld) await this.#capture.close()
    } finally {
      this.#isHeld = false
      await this.#lock.release()
    }
  }
}
