import { Fallback, type FallbackDeps, type Step } from '../kernel/keeper/fallback.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Selection } from '../util/selection.ts'
import type { Capture, Placement } from './capture.ts'

/** A way to capture traffic, as --capture names it. */
export type CaptureName = 'nftables' | 'iptables' | 'local' | 'listen' | 'none'

export type CaptureChoice = Selection<CaptureName>

export type CaptureStep = Step<CaptureName, Capture>

/** The first capture that works; while it runs it makes way for the next, in the same or the next sync. */
export class FallbackCapture implements Capture {
  readonly #captures: Fallback<CaptureName, Capture>
  #wanted: ReadonlySet<IpFamily> = new Set()

  private constructor(captures: Fallback<CaptureName, Capture>) {
    this.#captures = captures
  }

  static async start(
    steps: readonly CaptureStep[],
    deps: Omit<FallbackDeps<CaptureName>, 'of'>,
  ): Promise<FallbackCapture> {
    return new FallbackCapture(await Fallback.start(steps, { ...deps, of: 'capture' }))
  }

  get choice(): CaptureChoice {
    return this.#captures.selection
  }

  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    this.#wanted = new Set(servicePorts.map(({ family }) => family))
    try {
      return await this.#captures.now.place(servicePorts)
    } catch (error) {
      await this.#captures.giveUp(error, this.#wanted)
      return this.#captures.now.place(servicePorts)
    }
  }

  async steer(
    placements: readonly Placement[],
    snapshots: readonly Snapshot[],
  ): Promise<void> {
    try {
      await this.#captures.now.steer(placements, snapshots)
      this.#captures.worked()
    } catch (error) {
      await this.#captures.giveUp(error, this.#wanted)
      // The placements are of the one before: the next sync has others.
      throw error
    }
  }

  problems(): readonly Problem[] {
    return this.#captures.now.problems()
  }

  hold(): Promise<void> {
    return this.#captures.end().hold()
  }

  close(): Promise<void> {
    return this.#captures.end().close()
  }
}
