/** What happens at the ends of a direction; called at most once each. */
export interface DirectionEnds {
  /** The side's end was read; what it sent may still be held. */
  ended(side: number): void
  /** All that was held of a side has been written. */
  flushed(side: number): void
  /** The side was reset, or worse; `result` is the negative errno. */
  broken(side: number, result: number): void
}
