import type { AgentCall } from '../../support/net/outcome.ts'

/** What the machine itself does. */
export type NodeCall =
  | { readonly op: 'run'; readonly command: string; readonly args: readonly string[] }
  | { readonly op: 'launch'; readonly command: string; readonly args: readonly string[] }
  | { readonly op: 'log'; readonly process: number }
  | { readonly op: 'said'; readonly process: number; readonly text: string }
  | { readonly op: 'end'; readonly process: number; readonly signal: NodeJS.Signals }
  | { readonly op: 'write'; readonly path: string; readonly text: string }
  | { readonly op: 'enter'; readonly netns: string }
  | { readonly op: 'sync ipvs'; readonly scheduler: string }
  | { readonly op: 'at'; readonly place: number; readonly call: AgentCall }

/** One JSON document a line; the answer has the same id. */
export interface Request {
  readonly id: number
  readonly call: NodeCall | AgentCall
}

export interface Reply {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

/** How a program ended, and what it wrote. */
export interface Ran {
  /** -1 after a signal. */
  readonly code: number
  readonly out: string
  readonly err: string
}

/** A program that was launched; `code` is missing while it runs, -1 after a signal. */
export interface Log {
  /** Both outputs, in order. */
  readonly text: string
  readonly code?: number
}
