/** How patient a reflector is. Milliseconds. */
export interface Timing {
  /** A watch that says nothing for so long is cut: bookmarks come about each minute. */
  readonly silenceMs: number
  /** A streaming list that says nothing for so long, and has not ended, never will: the server does not know the mark of its end. */
  readonly markSilenceMs: number
  /** The same, for one that is never silent because of changes. */
  readonly markMs: number
  /** A watch that stood for so long was healthy, and waits begin anew. */
  readonly healthyMs: number
  /** After 401 and 403, which people have to mend, waits begin here. */
  readonly refusedMs: number
  /** Before looking again for what the server does not serve. */
  readonly rarelyMs: number
}

export const defaultTiming: Timing = {
  silenceMs: 70_000,
  markSilenceMs: 10_000,
  markMs: 60_000,
  healthyMs: 60_000,
  refusedMs: 5000,
  rarelyMs: 600_000,
}
