import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { Capture, Placement } from './capture.ts'
import { HostTurn, type HostTurnDeps } from '../kernel/keeper/host-turn.ts'

export interface ExclusiveDeps extends Omit<HostTurnDeps, 'of'> {
  /** What was put into the system stays at the end. */
  readonly keeps: boolean
}

/**
 * A capture that changes the host, used by one process of it at a time: a second one waits
 * with its first placement until the earlier one has ended. What is under way comes to its
 * end before `hold` and `close`, and nothing is done to the host after them.
 */
export class ExclusiveCapture implements Capture {
  readonly #capture: Capture
  readonly #deps: ExclusiveDeps
  readonly #turn: HostTurn
  #isClosed = false

  constructor(capture: Capture, deps: ExclusiveDeps) {
    this.#capture = capture
    this.#deps = deps
    this.#turn = new HostTurn({ ...deps, of: 'capture' })
  }

  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    return this.#turn.take(() => this.#capture.place(servicePorts))
  }

  steer(placements: readonly Placement[], snapshots: readonly Snapshot[]): Promise<void> {
    return this.#turn.lead(() => this.#capture.steer(placements, snapshots))
  }

  problems(): readonly Problem[] {
    return [...this.#capture.problems(), ...this.#turn.problems]
  }

  async hold(): Promise<void> {
    await this.#turn.end()
    if (!this.#turn.hasBegun) return
    await this.#turn.patiently(this.#capture.hold())
    // From now on this process touches nothing: the next one need not wait for the drain.
    if (this.#deps.keeps) await this.#turn.giveUp()
  }

  /** What another process has put into the system is not this one's to take out. */
  async close(): Promise<void> {
    await this.#turn.end()
    const isMine = this.#turn.hasBegun && !this.#isClosed
    try {
      if (isMine) await this.#capture.close()
    } finally {
      this.#isClosed = true
      await this.#turn.giveUp()
    }
    this.#turn.needAlone()
  }
}
