import type { Cause } from './cause.ts'

/** One dial attempt, for the record of a connection. */
export interface Attempt {
  readonly endpoint: string
  /**
   * `connected`, `refused`, `timeout`, `lost` (another was first), `closed early` (connected, and
   * ended before its first byte), `no answer` (connected, and silent for too long when its client
   * had spoken), `not replayed` (one of the two, and the client had said more than `replay`, so that no
   * other was dialled) or an errno code.
   */
  result: string
  /** Milliseconds from the start of the attempt to its result. */
  ms: number
}

/** What there is to say about a TCP connection that has ended. */
export interface ConnectionRecord {
  readonly listener: string
  readonly client: string
  /** `ip:port` of the endpoint that took it, '' when none did. */
  readonly endpoint: string
  readonly attempts: readonly Attempt[]
  readonly bytesToBackend: number
  readonly bytesToClient: number
  /** Milliseconds from accept to connected (or given up), and from accept to the end. */
  readonly dialMs: number
  readonly totalMs: number
  readonly cause: Cause
  /** The errno or reason behind an abnormal cause, '' otherwise. */
  readonly detail: string
}
