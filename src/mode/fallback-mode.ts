import type { Placement } from '../capture/capture.ts'
import type { FamilyProbes } from '../kernel/probe.ts'
import type { Look } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import { ipFamilies } from '../util/ip.ts'
import {
  type Chosen,
  firstUsable,
  type ModeChoice,
  type ModeRequest,
  type ModeStep,
  triedFor,
} from './choose-mode.ts'
import type { Mode, ModeName } from './mode.ts'

export interface FallbackModeDeps {
  readonly request: ModeRequest
  /** The modes that there are, userspace among them, in any order. */
  readonly steps: readonly ModeStep[]
  /** Called after a mode that ran was given up for another. */
  readonly fellBack: (change: FallBack) => void
  /** Called when the mode that was given up could not be ended in order. */
  readonly failed: (error: unknown) => void
}

export interface FallBack {
  readonly from: ModeName
  readonly to: ModeName
  /** Why the first one does not work any more. */
  readonly why: string
}

/** Syncs in a row that have to fail before the mode is probed again. */
const patience = 3

/**
 * Runs the first mode that works. When its syncs go on failing and its probe says that it
 * does not work any more, the next one takes its place in the same sync; there is no way
 * up again but a restart: a mode that comes and goes is worse than either.
 */
export class FallbackMode implements Mode {
  readonly #deps: FallbackModeDeps
  #mode: Mode
  #step: ModeStep
  #probes: FamilyProbes
  #next: readonly ModeStep[]
  #choice: ModeChoice
  #failures = 0
  #ended = false

  private constructor(deps: FallbackModeDeps, chosen: Chosen, mode: Mode) {
    this.#deps = deps
    this.#mode = mode
    this.#step = chosen.step
    this.#probes = chosen.probes
    this.#next = chosen.next
    this.#choice = {
      ...deps.request,
      name: mode.name,
      detail: chosen.detail,
      passedOver: chosen.passedOver,
    }
  }

  /** Rejects when the mode that is taken can't be started. */
  static async start(deps: FallbackModeDeps): Promise<FallbackMode> {
    const tried = triedFor(deps.request.mode)
    const steps = tried.flatMap(name => deps.steps.find(one => one.name === name) ?? [])
    const chosen = await firstUsable(steps)
    return new FallbackMode(deps, chosen, await chosen.step.start(chosen.probes))
  }

  /** What runs now, and why so. */
  get choice(): ModeChoice {
    return this.#choice
  }

  get name(): ModeName {
    return this.#mode.name
  }

  get placements(): readonly Placement[] {
    return this.#mode.placements
  }

  get problems(): readonly Problem[] {
    return this.#mode.problems
  }

  looks(servicePort: ServicePort, vip: Vip): readonly Look[] {
    return this.#mode.looks?.(servicePort, vip) ?? []
  }

  async sync(snapshots: readonly Snapshot[]): Promise<void> {
    try {
      await this.#mode.sync(snapshots)
      this.#failures = 0
    } catch (error) {
      this.#failures += 1
      if (this.#failures < patience || this.#next.length === 0 || this.#ended) throw error
      const why = whyLost(this.#probes, await this.#step.probe(), snapshots)
      if (why === '' || this.#ended) throw error
      await this.#fallBack(why)
      await this.#mode.sync(snapshots)
    }
  }

  drain(ms: number): Promise<DrainResult> {
    this.#ended = true
    return this.#mode.drain(ms)
  }

  close(): Promise<void> {
    this.#ended = true
    return this.#mode.close()
  }

  async #fallBack(why: string): Promise<void> {
    const before = this.#mode
    const chosen = await firstUsable(this.#next)
    const mode = await chosen.step.start(chosen.probes)
    // What it has put into the kernel serves on until the next mode takes it out.
    if (!this.#ended)
      await before.close().catch((error: unknown) => this.#deps.failed(error))
    // `close` may have come meanwhile: it has ended the mode before, and not this one.
    if (this.#ended) {
      await mode.close()
      throw new Error('the mode has ended')
    }
    this.#mode = mode
    this.#step = chosen.step
    this.#probes = chosen.probes
    this.#next = chosen.next
    this.#failures = 0
    const lost = { name: before.name, detail: why }
    const passedOver = [...this.#choice.passedOver, lost, ...chosen.passedOver]
    const { detail } = chosen
    this.#choice = { ...this.#choice, name: mode.name, detail, passedOver }
    this.#deps.fellBack({ from: before.name, to: mode.name, why })
  }
}

/**
 * Of the families with Services those that the mode had and has no more; '' when there is
 * none. What is missing for a family without Services does not matter.
 */
const whyLost = (
  before: FamilyProbes,
  now: FamilyProbes,
  snapshots: readonly Snapshot[],
): string => {
  const wanted = new Set(
    snapshots.filter(one => one.servicePorts.size > 0).map(({ family }) => family),
  )
  const lost = ipFamilies.filter(
    family => wanted.has(family) && before[family].usable && !now[family].usable,
  )
  const reasons = new Set(lost.map(family => now[family].detail || 'it fails'))
  return [...reasons].join('; ')
}
