import type { Step } from '../kernel/keeper/fallback.ts'
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
export const triedFor = (wanted: WantedMode): readonly ModeName[] => {
  if (wanted === 'userspace') return ['userspace']
  if (wanted === 'nftables' || wanted === 'ipvs') return [wanted, 'iptables', 'userspace']
  return ['iptables', 'userspace']
}
