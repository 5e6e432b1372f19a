/** Milliseconds between looks, and while damage is recent. */
const [calmMs, closeMs] = [4000, 1000]
/** For so long it is, by the clock of the looks. */
const recentMs = 60_000

/** When to look again at what others may change: a program that does so once mostly does again. */
export class LookPace {
  #closeUntil = -Infinity

  /** `hasFound`: the look that began at `now` found damage. */
  next(now: number, hasFound: boolean): number {
    if (hasFound) this.#closeUntil = now + recentMs
    return now < this.#closeUntil ? closeMs : calmMs
  }
}
