import { type FamilyProbes, joinProbes } from '../kernel/probe.ts'
import type { PassedOver, Selection } from '../util/selection.ts'
import type { Mode, ModeName } from './mode.ts'

/** What may be asked for; '' for the best that works. */
export type WantedMode = ModeName | ''

export interface ModeRequest {
  readonly mode: WantedMode
  /** What asks for it, as in `--proxy-mode`; '' when no mode was asked for. */
  readonly by: string
}

/** A mode that may work here. */
export interface ModeStep {
  readonly name: ModeName
  /** Never rejects; what works in one family is worth having. */
  readonly probe: () => Promise<FamilyProbes>
  /** `probes`: what `probe` has found. Touches nothing yet that packets go by. */
  readonly start: (probes: FamilyProbes) => Promise<Mode>
}

/** What was asked for, and what runs. */
export interface ModeChoice extends ModeRequest, Selection<ModeName> {}

/**
 * Which modes are tried, in this order. Without a wish ipvs is never taken, as kube-proxy
 * never did: it makes every VIP an address of the host, which the operator should decide.
 */
export const triedFor = (wanted: WantedMode): readonly ModeName[] => {
  if (wanted === 'userspace') return ['userspace']
  if (wanted === 'nftables' || wanted === 'ipvs') return [wanted, 'iptables', 'userspace']
  return ['iptables', 'userspace']
}

export interface Chosen {
  readonly step: ModeStep
  readonly probes: FamilyProbes
  readonly detail: string
  readonly passedOver: readonly PassedOver[]
  /** Where to go on when it breaks. */
  readonly next: readonly ModeStep[]
}

/** The first step that works; the last one is taken in any case. */
export const firstUsable = async (steps: readonly ModeStep[]): Promise<Chosen> => {
  const passedOver: PassedOver[] = []
  for (const [index, step] of steps.entries()) {
    const probes = await step.probe()
    const { usable, detail } = joinProbes(probes)
    const next = steps.slice(index + 1)
    if (usable || next.length === 0) return { step, probes, detail, passedOver, next }
    passedOver.push({ name: step.name, detail })
  }
  throw new Error('no mode to choose from')
}
