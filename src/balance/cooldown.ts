/**
 * An endpoint that failed a moment ago is passed over while there are others, so that not every
 * connection has to find out anew. When its cooldown is over one connection at a time tries it, until
 * one gets through; the cooldown doubles with each that does not.
 */
export interface Cooldown {
  /** Monotonic milliseconds: until then it is passed over. */
  readonly until: number
  /** In a row, but for those during a cooldown; 0: it has none. */
  readonly failures: number
  /** Whether a connection that tries it is what the others wait for, not the end of its cooldown. */
  readonly isProbed: boolean
}

/** Of an endpoint that has not failed: this very object. */
export const noCooldown: Cooldown = { until: 0, failures: 0, isProbed: false }

/** It doubles no further, whatever the longest cooldown is. */
const mostFailures = 63

export const isCoolingDown = ({ until }: Cooldown, now: number): boolean => until > now

/**
 * It failed: `cooldownMs` from `now` on it is passed over, and twice as long for each time before
 * in a row, up to `longestMs`.
 */
export const afterFailure = (
  cooldown: Cooldown,
  now: number,
  cooldownMs: number,
  longestMs: number,
): Cooldown => {
  const { until, failures, isProbed } = cooldown
  // Of the same trouble: many connections may be under way when it begins.
  if (isCoolingDown(cooldown, now) && !isProbed) {
    return { until: Math.max(until, now + cooldownMs), failures, isProbed: false }
  }
  const longer = failures === 0 ? 0 : Math.min(cooldownMs * 2 ** failures, longestMs)
  return {
    until: now + Math.max(cooldownMs, longer),
    failures: Math.min(failures + 1, mostFailures),
    isProbed: false,
  }
}

/** The one connection tries it, for `probeMs` from now; undefined when it is not due for that. */
export const probed = (
  cooldown: Cooldown,
  now: number,
  probeMs: number,
): Cooldown | undefined =>
  cooldown.failures === 0 || isCoolingDown(cooldown, now)
    ? undefined
    : { until: now + probeMs, failures: cooldown.failures, isProbed: true }

/** It served; undefined when nothing changes by that. */
export const afterSuccess = ({ failures }: Cooldown): Cooldown | undefined =>
  failures === 0 ? undefined : noCooldown

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
