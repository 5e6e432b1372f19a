import type { LoadAnswer } from './question.ts'

/** What a load found out besides how much it got done. */
export type Findings = Partial<
  Pick<LoadAnswer, 'done' | 'latency' | 'connect' | 'late' | 'tried' | 'besideBytes'>
>

/** Traffic that is running: a generator pours it until it is told to stop. */
export interface Load {
  /** Requests, connections, bytes or datagrams that have come back so far. */
  done(): number
  /** What went wrong so far, by errno code or in words. */
  readonly errors: ErrorCounts
  /** Resolves when it can pour, whether the target takes it or not. */
  ready?(): Promise<void>
  /** The window opens with the first that is poured, and not after a settling time. */
  readonly isFromTheFirst?: boolean
  /** The measured window opens: times are taken from here on. */
  openWindow?(): void
  /**
   * The window is over. Resolves when what was on its way has come back or counts as
   * failed, within seconds.
   */
  closeWindow?(): Promise<void>
  /** Told at the end; a `done` in it stands in place of the one of the window. */
  findings?(): Findings
  /** Ends everything. Resolves when no socket, timer or thread of it is left. */
  stop(): Promise<void>
}

/** Errors that differ by more names than this are counted as one. */
const mostNames = 50

/** Counts failures by name. */
export class ErrorCounts {
  readonly #counts = new Map<string, number>()

  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts)
  }

  add(name: string, times = 1): void {
    if (!(times > 0)) return
    const known = this.#counts.has(name) || this.#counts.size < mostNames
    const kept = known ? name : 'other errors'
    this.#counts.set(kept, (this.#counts.get(kept) ?? 0) + times)
  }

  addAll(counts: Readonly<Record<string, number>>): void {
    for (const [name, times] of Object.entries(counts)) this.add(name, times)
  }
}

/** The errno code where there is one, else the message. */
export const errorName = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? String(error.code) : error.message
}
