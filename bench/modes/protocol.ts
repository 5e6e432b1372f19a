/** What is done to a proxier, in this order; the changes as often as is asked for. */
export const steps = [
  'first',
  'unchanged',
  'endpoint',
  'added',
  'removed',
  'full',
] as const

export type Step = (typeof steps)[number]

/** What the process that syncs is asked. */
export type SyncQuestion =
  | {
      readonly do: 'open'
      readonly proxier: string
      readonly services: number
      /** For what tools were given, a file each. */
      readonly folder: string
    }
  /** `i`: the Service that changes. */
  | { readonly do: 'sync'; readonly step: Step; readonly i: number }
  | { readonly do: 'close' }

/** A tool that was run. */
export interface ToolCall {
  readonly command: string
  readonly args: readonly string[]
  /** The file with what it read; '' when that was nothing. */
  readonly input: string
  /** Those that say something, without comments and empty ones. */
  readonly lines: number
}

/** What one sync took. Milliseconds. */
export interface SyncDone {
  readonly wallMs: number
  /** Of that, for tools that were given rules to write. */
  readonly waitedMs: number
  /** CPU time of Usher's own process. */
  readonly cpuMs: number
  readonly work: 'nothing' | 'partial' | 'full'
  readonly calls: readonly ToolCall[]
}

/** What the process that only runs tools is asked; it answers with milliseconds. */
export type ReplayQuestion = ToolCall
