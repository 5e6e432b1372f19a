/** Something the demo promised to show, and whether it was there to see. */
export interface Expectation {
  /** What should be so, as a sentence without its full stop. */
  readonly name: string
  readonly ok: boolean
  /** What was seen instead; '' when all is well. */
  readonly reason: string
}

/** One part of the show: what was done, what came of it, and whether that was right. */
export interface Section {
  readonly title: string
  readonly lines: readonly string[]
  readonly expectation: Expectation
}

/**
 * An expectation from its possible faults, in the order of their weight: the first one
 * that is true is the reason.
 */
export const expectation = (
  name: string,
  faults: readonly (readonly [broken: boolean, reason: string])[],
): Expectation => {
  const fault = faults.find(([broken]) => broken)
  return { name, ok: fault === undefined, reason: fault?.[1] ?? '' }
}
