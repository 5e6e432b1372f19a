/** When things at a fixed rate are due: the n-th after n / rate. Starts by `startAt`. */
export class Schedule {
  readonly intervalMs: number
  #start = Infinity

  constructor(perSecond: number) {
    if (!(perSecond > 0)) throw new Error(`a rate of ${perSecond}/s: must be above 0`)
    this.intervalMs = 1000 / perSecond
  }

  startAt(ms: number): void {
    this.#start = ms
  }

  dueAt(index: number): number {
    return this.#start + index * this.intervalMs
  }

  /** How many are due by then. */
  dueBy(ms: number): number {
    return ms < this.#start ? 0 : Math.floor((ms - this.#start) / this.intervalMs) + 1
  }
}
