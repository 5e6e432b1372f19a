import type { Placement } from '../capture/capture.ts'
import { Fallback, type FallbackDeps, type Step } from '../kernel/keeper/fallback.ts'
import type { InspectCommand } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Selection } from '../util/selection.ts'
import type { Mode, ModeName } from './mode.ts'

/** What may be asked for; '' for the best that works. */
export type WantedMode = ModeName | ''

export interface ModeRequest {
  readonly mode: WantedMode
  /** What asks for it, as in `--proxy-mode`; '' when no mode was asked for. */
  readonly by: string
}

export type ModeStep = Step<ModeName, Mode>

/** What was asked for, and what runs. */
export interface ModeChoice extends ModeRequest, Selection<ModeName> {}

/**
 * Which modes are tried, in this order. Without a wish ipvs is never taken, as kube-proxy
 * never did: it makes every VIP an address of the host, which the operator should decide.
 */
const triedFor = (wanted: WantedMode): readonly ModeName[] => {
  if (wanted === 'userspace') return ['userspace']
  if (wanted === 'nftables' || wanted === 'ipvs') return [wanted, 'iptables', 'userspace']
  return ['iptables', 'userspace']
}

export interface FallbackModeDeps extends Omit<FallbackDeps<ModeName>, 'of'> {
  readonly request: ModeRequest
  /** The modes that there are, userspace among them, in any order. */
  readonly steps: readonly ModeStep[]
}

/** Runs the first mode that works, and makes way for the next in the same sync. */
export class FallbackMode implements Mode {
  readonly #request: ModeRequest
  readonly #modes: Fallback<ModeName, Mode>

  private constructor(request: ModeRequest, modes: Fallback<ModeName, Mode>) {
    this.#request = request
    this.#modes = modes
  }

  /** Rejects when the mode that is taken can't be started. */
  static async start({
    request,
    steps,
    ...deps
  }: FallbackModeDeps): Promise<FallbackMode> {
    const tried = triedFor(request.mode)
    const all = tried.flatMap(name => steps.find(one => one.name === name) ?? [])
    return new FallbackMode(request, await Fallback.start(all, { ...deps, of: 'mode' }))
  }

  /** What runs now, and why so. */
  get choice(): ModeChoice {
    return { ...this.#request, ...this.#modes.selection }
  }

  get name(): ModeName {
    return this.#modes.now.name
  }

  get placements(): readonly Placement[] {
    return this.#modes.now.placements
  }

  get problems(): readonly Problem[] {
    return this.#modes.now.problems
  }

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    return this.#modes.now.inspectCommands?.(servicePort, vip) ?? []
  }

  async sync(snapshots: readonly Snapshot[]): Promise<void> {
    try {
      await this.#modes.now.sync(snapshots)
      this.#modes.worked()
    } catch (error) {
      await this.#modes.giveUp(error, withServices(snapshots))
      await this.#modes.now.sync(snapshots)
    }
  }

  lend(): Promise<() => void> {
    return this.#modes.now.lend()
  }

  drain(ms: number): Promise<DrainResult> {
    return this.#modes.end().drain(ms)
  }

  close(): Promise<void> {
    return this.#modes.end().close()
  }
}

/** The families that have any. */
const withServices = (snapshots: readonly Snapshot[]): ReadonlySet<IpFamily> =>
  new Set(snapshots.filter(one => one.servicePorts.size > 0).map(({ family }) => family))
