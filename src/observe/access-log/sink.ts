/** One destination of the access log. Nothing of it ever waits, but for `end`. */
export interface LineSink {
  /** Whole lines, so many. `lost` is told how many of them could not be written, now or later. */
  write(text: string, lines: number, lost: (lines: number) => void): void
  /** Looks whether another file is at its path. */
  reopen(): void
  /** Writes what waits, for `ms` milliseconds at most; the rest is lost. */
  end(ms: number): Promise<void>
}

/** Why it can't be written now, in words; '' when it can again. Said when that changes. */
export type SayTrouble = (why: string) => void

/** Bytes that may wait for a destination that does not take them. */
export const mostWaitingBytes = 16 * 1024 * 1024

export const tooSlow = 'it takes lines more slowly than they come, and some are dropped'

/** Lines that wait, in the order of their coming, bounded. */
export class LineQueue {
  #waiting: Waiting[] = []
  #bytes = 0

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  /** As many UTF-16 units: all but a few lines are ASCII. */
  get bytes(): number {
    return this.#bytes
  }

  /** False when there is no room; then they are lost. */
  add(text: string, lines: number, lost: (lines: number) => void): boolean {
    if (this.#bytes + text.length > mostWaitingBytes) {
      lost(lines)
      return false
    }
    this.#waiting.push({ text, lines, lost })
    this.#bytes += text.length
    return true
  }

  take(): readonly Waiting[] {
    const taken = this.#waiting
    this.#waiting = []
    this.#bytes = 0
    return taken
  }
}

export interface Waiting {
  readonly text: string
  readonly lines: number
  readonly lost: (lines: number) => void
}

/** Of `waiting` one after the other, those from the line number `from` (from 0) to before `to` are lost. */
export const loseLines = (
  waiting: readonly Waiting[],
  from: number,
  to = Number.POSITIVE_INFINITY,
): void => {
  let first = 0
  for (const { lines, lost } of waiting) {
    const count = Math.min(first + lines, to) - Math.max(first, from)
    if (count > 0) lost(count)
    first += lines
  }
}
