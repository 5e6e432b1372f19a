import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { AddressPort, IpFamily } from '../util/ip.ts'
import { HostTurn, type HostTurnDeps } from '../kernel/keeper/host-turn.ts'
import { Fallback, type FallbackDeps, type Step } from '../kernel/keeper/fallback.ts'
import type { Selection } from '../util/selection.ts'

/**
 * How a VIP is served. `nftables` and `iptables`: rules of the kernel's lead to a proxy
 * port. `local` and `listen`: Usher listens on the VIP itself, which it made an address of this host,
 * or which is one anyway. `none`: on a proxy port that clients or
 * rules of another program must know. `kernel`: a kernel mode leads it to endpoints, and Usher
 * listens nowhere. `not captured`: not at all.
 */
export type PlacementKind =
  'nftables' | 'iptables' | 'local' | 'listen' | 'none' | 'kernel' | 'not captured'

export interface VipPlacement {
  readonly vip: Vip
  readonly capture: PlacementKind
  readonly binds: readonly AddressPort[]
  /** Why it could not be served better; '' when there is nothing to say. */
  readonly reason: string
}

/** Where the relay listens for one ServicePort. */
export interface Placement {
  readonly servicePort: ServicePort
  /** `RelayListener.id`. */
  readonly listenerId: string
  readonly vips: readonly VipPlacement[]
}

/** Tells placements apart, also those without a listener. */
export const listenerId = ({ family, key }: ServicePort): string => `${family} ${key}`

/** Says where the relay listens, and leads the traffic for VIPs there. Calls don't overlap. */
export interface Capture {
  /** Where to listen for each of them; nothing that clients would notice is done yet. */
  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]>
  /**
   * Once the relay listens where `place` said: leads traffic there. Rejects when that
   * failed, and is then to be called again.
   */
  steer(placements: readonly Placement[], snapshots: readonly Snapshot[]): Promise<void>
  /** What of the last calls could not be honoured. */
  problems(): readonly Problem[]
  /** Another process may change the host in its place; as of `HostTurn.lend`. */
  lend?(): Promise<() => void>
  /** New clients wait in silence from now on, where that is possible: before an end. */
  hold(): Promise<void>
  /** Ends what it holds; takes out what it put into the system, unless that is to stay. */
  close(): Promise<void>
}

interface ExclusiveDeps extends Omit<HostTurnDeps, 'of'> {
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

  lend(): Promise<() => void> {
    return this.#turn.lend()
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
    const ownsRules = this.#turn.hasBegun && !this.#isClosed
    try {
      if (ownsRules) await this.#capture.close()
    } finally {
      this.#isClosed = true
      await this.#turn.giveUp()
    }
    this.#turn.needAlone()
  }
}

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

  async lend(): Promise<() => void> {
    return (await this.#captures.now.lend?.()) ?? (() => {})
  }

  hold(): Promise<void> {
    return this.#captures.end().hold()
  }

  close(): Promise<void> {
    return this.#captures.end().close()
  }
}
