import type { Protocol } from '../../../src/model/service.ts'

/** Where a client goes. */
export interface Destination {
  readonly protocol: Protocol
  readonly address: string
  readonly port: number
}

/**
 * What a client met. `reset`: after it was accepted, or instead of an answer. `blocked`:
 * its own kernel would not send (EPERM). `closed`: an end without an answer.
 */
export type Result =
  'answer' | 'refused' | 'reset' | 'timeout' | 'unreachable' | 'blocked' | 'closed'

export interface Outcome {
  readonly result: Result
  /** The backend that answered; '' without an answer. */
  readonly backend: string
  /** The client's address as the backend saw it; '' without an answer. */
  readonly seen: string
  /** The client's own address, where it got one. */
  readonly own: string
  readonly ms: number
}

/** One connection of a load that was not answered. */
export interface LoadFailure extends Destination {
  /** Date.now(), which all processes of a machine share. */
  readonly startedAt: number
  readonly ms: number
  readonly result: Result
}

/** What a load of connections met. */
export interface LoadReport {
  readonly counts: Readonly<Partial<Record<Result, number>>>
  /** Of connections that were answered, milliseconds. */
  readonly slowestMs: number
  /** The first thousand. */
  readonly failures: readonly LoadFailure[]
}

/** Requests to an agent, one JSON document a line; it answers with the same id. */
export type AgentCall =
  | {
      readonly op: 'serve'
      readonly name: string
      readonly addresses: readonly string[]
      readonly port: number
    }
  | ({ readonly op: 'dial'; readonly timeoutMs: number } & Destination)
  | {
      readonly op: 'get'
      readonly address: string
      readonly port: number
      readonly path: string
    }
  | {
      readonly op: 'load'
      readonly to: readonly Destination[]
      readonly pauseMs: number
      readonly timeoutMs: number
    }
  | { readonly op: 'end load' }
  | ({ readonly op: 'open' } & Destination)
  | { readonly op: 'ask'; readonly connection: number }
  | { readonly op: 'subscribe'; readonly connection: number }
  | { readonly op: 'heard'; readonly connection: number }
  | { readonly op: 'close'; readonly connection: number }
