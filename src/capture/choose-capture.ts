import type { Probe } from '../kernel/probe.ts'

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

export interface Choice {
  readonly name: CaptureName
  /** Why it was taken. */
  readonly detail: string
  /** What would have been better, and why it does not work. */
  readonly passedOver: readonly Probed[]
}

/** Needs nothing that could be missing. */
const lastResort = 'listen'

/** The first candidate that works; what comes after it is not tried. */
export const chooseCapture = async (
  candidates: readonly Candidate[],
): Promise<Choice> => {
  const passedOver: Probed[] = []
  for (const { name, probe } of candidates) {
    const { usable, detail } = await probe()
    if (usable) return { name, detail, passedOver }
    passedOver.push({ name, usable, detail })
  }
  return { name: lastResort, detail: 'nothing else works here', passedOver }
}
