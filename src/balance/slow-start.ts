/** Whether an endpoint is down, or has just come back. */
export interface Recovery {
  /** Monotonic milliseconds: it has been so since then. */
  readonly since: number
  readonly isUp: boolean
}

/** Nothing of that: this very object. */
export const noRecovery: Recovery = { since: 0, isUp: true }

/** Who was down for less has kept its caches warm; who comes so soon after the first starts with it. */
export const enoughDownMs = 10_000

/** An endpoint starts with a tenth of its share, as with HAProxy and Envoy not far from none. */
const leastShare = 0.1

/** Undefined when nothing changes by that. */
export const recoveryAfterFailure = (
  recovery: Recovery,
  now: number,
): Recovery | undefined => (recovery.isUp ? { since: now, isUp: false } : undefined)

/** It served; undefined as above. */
export const recoveryAfterSuccess = (
  { since, isUp }: Recovery,
  now: number,
): Recovery | undefined => {
  if (isUp) return undefined
  return now - since < enoughDownMs ? noRecovery : { since: now, isUp: true }
}

/** It is listed, and was not before, beside others that were. */
export const listedAnew = (now: number): Recovery => ({ since: now, isUp: true })

/** Of its connections, from a tenth up to 1 when it has been back for `slowStartMs`. */
export const shareOf = (
  { since, isUp }: Recovery,
  now: number,
  slowStartMs: number,
): number => {
  if (!isUp || since === 0) return 1
  return Math.min(1, Math.max(leastShare, (now - since) / slowStartMs))
}
