/** What the process that leads its own connects is asked, in this order. */
export type LedQuestion =
  | { readonly do: 'first'; readonly services: number; readonly endpoints: number }
  | { readonly do: 'changes'; readonly count: number }
  | { readonly do: 'dead'; readonly connects: number }

/** The first sync: programs checked and attached, and all tables filled. */
export interface FirstDone {
  readonly wallMs: number
  readonly cpuMs: number
  /** Of all tables, filled as they are then. */
  readonly kernelBytes: number
}

/** An endpoint moved, again and again; milliseconds from the change on. */
export interface ChangesDone {
  /** Until the tables have it. */
  readonly writtenMs: readonly number[]
  /** Until a connect, begun then, has heard from the new one. */
  readonly seenMs: readonly number[]
}

/** Connects to a Service one of whose two endpoints refuses. */
export interface DeadDone {
  readonly connects: number
  readonly failed: number
  readonly seconds: number
}
