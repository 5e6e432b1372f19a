import type { Probe } from '../kernel/probe.ts'
import type { Selection } from '../util/selection.ts'

/** A way to capture traffic, as --capture names it. */
export type CaptureName = 'nftables' | 'iptables' | 'local' | 'listen' | 'none'

export interface Candidate {
  readonly name: CaptureName
  /** Finds out by doing it. Never rejects. */
  readonly probe: () => Promise<Probe>
}

export interface Probed extends Probe {
  readonly name: CaptureName
}

export type CaptureChoice = Selection<CaptureName>

/** Needs nothing that could be missing. */
const lastResort = 'listen'

/** The first candidate that works; what comes after it is not tried. */
export const chooseCapture = async (
  candidates: readonly Candidate[],
): Promise<CaptureChoice> => {
  const passedOver: Probed[] = []
  for (const { name, probe } of candidates) {
    const { usable, detail } = await probe()
    if (usable) return { name, detail, passedOver }
    passedOver.push({ name, usable, detail })
  }
  return { name: lastResort, detail: 'nothing else works here', passedOver }
}
