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
  /** What would have been better, and why it can't be had. */
  readonly passedOver: readonly Probed[]
}

/** Needs nothing that could be missing. */
const lastResort = 'listen'

/** The first candidate that can be had; what comes after it is not tried. */
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

/** One answer for both families: what can be had in one is worth having. */
export const joinProbes = (IPv4: Probe, IPv6: Probe): Probe => {
  if (IPv4.usable === IPv6.usable) {
    const same = IPv4.detail === IPv6.detail
    const detail = same ? IPv4.detail : `${IPv4.detail}; IPv6: ${IPv6.detail}`
    return { usable: IPv4.usable, detail }
  }
  const detail = IPv4.usable
    ? `${IPv4.detail}; not for IPv6: ${IPv6.detail}`
    : `${IPv6.detail}; not for IPv4: ${IPv4.detail}`
  return { usable: true, detail }
}
