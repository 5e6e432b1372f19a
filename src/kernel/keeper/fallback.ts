import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import type { PassedOver, Selection } from '../../util/selection.ts'
import { type FamilyProbes, joinProbes } from '../probe.ts'

/** A mode or capture that may work here. */
export interface Step<Name extends string, Made> {
  readonly name: Name
  /** Never rejects; what works in one family is worth having. */
  readonly probe: () => Promise<FamilyProbes>
  /**
   * `probes`: what `probe` has found; `before`: what is given up for it. Touches nothing yet that
   * packets go by.
   */
  readonly start: (probes: FamilyProbes, before?: string) => Promise<Made>
}

export interface FallBack<Name extends string> {
  readonly from: Name
  readonly to: Name
  /** Why the first one does not work any more. */
  readonly reason: string
}

export interface FallbackDeps<Name extends string> {
  /** What runs, for the error once it has ended. */
  readonly of: string
  /** Called after one that ran was given up for another. */
  readonly fellBack: (change: FallBack<Name>) => void
  /** Called when the one that was given up could not be ended in order. */
  readonly failed: (error: unknown) => void
}

interface Chosen<Name extends string, Made> {
  readonly step: Step<Name, Made>
  readonly probes: FamilyProbes
  readonly detail: string
  readonly passedOver: readonly PassedOver[]
  /** Where to go on when it breaks. */
  readonly next: readonly Step<Name, Made>[]
}

/** Syncs in a row that have to fail before what runs is probed again. */
const patience = 3

/**
 * The first mode or capture that works. When its syncs go on failing and its probe says that it
 * does not work any more, the next one takes its place; there is no way up again but a restart:
 * one that comes and goes is worse than either.
 */
export class Fallback<Name extends string, Made extends { close(): Promise<void> }> {
  readonly #deps: FallbackDeps<Name>
  #chosen: Chosen<Name, Made>
  #made: Made
  #passedOver: readonly PassedOver[]
  #failures = 0
  #ended = false

  private constructor(deps: FallbackDeps<Name>, chosen: Chosen<Name, Made>, made: Made) {
    this.#deps = deps
    this.#chosen = chosen
    this.#made = made
    this.#passedOver = chosen.passedOver
  }

  /** Rejects when the one that is taken can't be started. */
  static async start<Name extends string, Made extends { close(): Promise<void> }>(
    steps: readonly Step<Name, Made>[],
    deps: FallbackDeps<Name>,
  ): Promise<Fallback<Name, Made>> {
    const chosen = await firstUsable(steps)
    return new Fallback(deps, chosen, await chosen.step.start(chosen.probes))
  }

  /** What runs now. */
  get now(): Made {
    return this.#made
  }

  get selection(): Selection<Name> {
    const { step, detail } = this.#chosen
    return { name: step.name, detail, passedOver: this.#passedOver }
  }

  /** A sync of it did. */
  worked(): void {
    this.#failures = 0
  }

  /** A sync of it did not, in which these families have Services. Rejects with that unless another has its place by now. */
  async giveUp(error: unknown, wanted: ReadonlySet<IpFamily>): Promise<void> {
    const { step, probes, next } = this.#chosen
    this.#failures += 1
    if (this.#failures < patience || next.length === 0 || this.#ended) throw error
    const reason = lostReason(probes, await step.probe(), wanted)
    if (reason === '' || this.#ended) throw error
    await this.#fallBack(reason)
  }

  /** What runs is ended by its owner, and nothing takes its place. */
  end(): Made {
    this.#ended = true
    return this.#made
  }

  async #fallBack(reason: string): Promise<void> {
    const { fellBack, failed, of } = this.#deps
    const [before, { name: from }] = [this.#made, this.#chosen.step]
    const chosen = await firstUsable(this.#chosen.next)
    const made = await chosen.step.start(chosen.probes, from)
    // What it has put into the kernel serves on until the next one takes it out.
    if (!this.#ended) await before.close().catch(failed)
    // The owner may have ended the one before meanwhile, and not this one.
    if (this.#ended) {
      await made.close()
      throw new Error(`the ${of} has ended`)
    }
    this.#made = made
    this.#chosen = chosen
    this.#failures = 0
    const lost = { name: from, detail: reason }
    this.#passedOver = [...this.#passedOver, lost, ...chosen.passedOver]
    fellBack({ from, to: chosen.step.name, reason })
  }
}

/** The first step that works; the last one is taken in any case. */
const firstUsable = async <Name extends string, Made>(
  steps: readonly Step<Name, Made>[],
): Promise<Chosen<Name, Made>> => {
  const passedOver: PassedOver[] = []
  for (const [index, step] of steps.entries()) {
    const probes = await step.probe()
    const { usable, detail } = joinProbes(probes)
    const next = steps.slice(index + 1)
    if (usable || next.length === 0) return { step, probes, detail, passedOver, next }
    passedOver.push({ name: step.name, detail })
  }
  throw new Error('nothing to choose from')
}

/**
 * Of the families with Services those that it had and has no more; '' when there is none. What
 * is missing for a family without Services does not matter.
 */
const lostReason = (
  before: FamilyProbes,
  now: FamilyProbes,
  wanted: ReadonlySet<IpFamily>,
): string => {
  const lost = ipFamilies.filter(
    family => wanted.has(family) && before[family].usable && !now[family].usable,
  )
  const reasons = new Set(lost.map(family => now[family].detail || 'it fails'))
  return [...reasons].join('; ')
}
