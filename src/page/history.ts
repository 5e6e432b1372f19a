/** What is shown of the past: 2 minutes of seconds. */
export const historyLength = 120

/** New connections and failures a second, of the last looks; a look has a number. */
export class History {
  readonly #rates = new Float32Array(historyLength)
  readonly #failures = new Float32Array(historyLength)
  #last: number

  constructor(look: number) {
    this.#last = look
  }

  put(look: number, rate: number, failures: number): void {
    // Looks at which nothing was put had none.
    const from = Math.max(this.#last + 1, look - historyLength + 1)
    for (let quiet = from; quiet < look; quiet++) this.#set(quiet, 0, 0)
    this.#set(look, rate, failures)
    this.#last = look
  }

  /** Oldest first, until `look`; fewer when there have not been so many looks yet. */
  values(look: number): readonly (readonly [rate: number, failures: number])[] {
    // With the first look there are no rates yet.
    const length = Math.min(historyLength, Math.max(0, look - 1))
    return Array.from({ length }, (_, i) => {
      const at = look - length + 1 + i
      if (at > this.#last || at <= this.#last - historyLength) return [0, 0]
      const place = at % historyLength
      return [this.#rates[place] ?? 0, this.#failures[place] ?? 0]
    })
  }

  #set(look: number, rate: number, failures: number): void {
    this.#rates[look % historyLength] = rate
    this.#failures[look % historyLength] = failures
  }
}
