const secondMs = 1000

/**
 * Whether one more may come at `now`, of `perSecond` that may come in a second: the generic cell
 * rate algorithm (ITU-T I.371), whose whole state is `due`, when the next would be due if they came
 * evenly; 0 before the first. Gives the state after it, or undefined when it comes too soon. As many
 * as may come in a second may come at once. Times in milliseconds.
 */
export const dueAfter = (
  due: number,
  now: number,
  perSecond: number,
): number | undefined => {
  const stepMs = secondMs / perSecond
  const from = Math.max(due, now)
  // A sum of steps is not exact.
  return from - now > secondMs - stepMs * 0.999 ? undefined : from + stepMs
}
