/** Traffic that is running: a generator pours it until it is told to stop. */
export interface Load {
  /** Requests, connections, bytes or datagrams that have come back so far. */
  done(): number
  /** What went wrong so far, by errno code or in words. */
  readonly errors: Readonly<Record<string, number>>
  stop(): void
}

/** Counts failures by name. */
export class ErrorCounts {
  readonly counts: Record<string, number> = {}

  add(name: string, times = 1): void {
    this.counts[name] = (this.counts[name] ?? 0) + times
  }

  addError(error: Error): void {
    this.add('code' in error ? String(error.code) : error.message)
  }
}
