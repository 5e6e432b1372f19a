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
      /** Of each Service. */
      readonly endpoints: number
      /** For what tools were given, a file each. */
      readonly folder: string
    }
  /** `i`: the Service that changes. */
  | { readonly do: 'sync'; readonly step: Step; readonly i: number }
  | ({ readonly do: 'stream' } & StreamWish)
  | { readonly do: 'close' }

/** Endpoint changes that don't wait for each other. */
export interface StreamWish {
  /** 0: there is to be none. */
  readonly seconds: number
  readonly perSecond: number
  /** As --min-sync-period. */
  readonly minSyncMs: number
}

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
  /** CPU time of all tools, those that only look among them; a multiple of 10. */
  readonly toolCpuMs: number
  readonly work: 'nothing' | 'partial' | 'full'
  readonly calls: readonly ToolCall[]
}

/** What became of a stream of changes. Milliseconds. */
export interface StreamDone {
  /** From each change to the end of the sync that wrote it. */
  readonly appliedMs: readonly number[]
  readonly syncs: number
  readonly wallMs: number
  readonly cpuMs: number
  /** Of all tools, the one that watches the rules among them. */
  readonly toolCpuMs: number
}

/** What the process that only runs tools is asked. */
export type ReplayQuestion = ToolCall

/** What the tool took by itself. */
export interface ReplayDone {
  readonly ms: number
  /** The most memory that it was seen to have. */
  readonly peakRssBytes: number
}
