import type { ProxyVersion } from '../util/proxy-header.ts'

/** What is asked of an endpoint to know whether it is up. Plain data, comparable by value. */
export type Check =
  | { readonly type: 'tcp'; readonly port?: number }
  | {
      readonly type: 'http'
      readonly port?: number
      /** With its query, as it is sent. */
      readonly path: string
      readonly statuses: readonly number[]
    }
  | {
      readonly type: 'postgres'
      readonly port?: number
      readonly user: string
      readonly database: string
    }
  | { readonly type: 'redis'; readonly port?: number; readonly role?: RedisRole }
  | { readonly type: 'mysql'; readonly port?: number; readonly user: string }
  | {
      readonly type: 'expect'
      readonly port?: number
      /** Each character is a byte; '' when the server speaks first. */
      readonly send: string
      readonly expect: Expected
    }

export type RedisRole = 'primary' | 'replica'

/** The first bytes of an answer, or a regular expression for them; each character is a byte. */
export type Expected = { readonly prefix: string } | { readonly pattern: string }

export type CheckOf<Type extends Check['type']> = Extract<Check, { type: Type }>

/** Whether it asks for more than that a server is there, as for the one that takes writes. */
export const asksForRole = (check: Check): boolean =>
  check.type === 'http' ||
  check.type === 'expect' ||
  (check.type === 'redis' && check.role !== undefined)

/** When checks are made, and how many of them turn an endpoint up or down. */
export interface CheckRules {
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Failures in a row after which it is down. */
  readonly fall: number
  /** Successes in a row after which it is up. */
  readonly rise: number
  /** What it is taken for before its first check. */
  readonly init: 'up' | 'down'
}

/** `init` as for a check that asks whether a server is there at all. */
export const usualRules: CheckRules = {
  intervalMs: 2000,
  timeoutMs: 2000,
  fall: 3,
  rise: 2,
  init: 'up',
}

/** Whom a check asks. */
export interface CheckedEndpoint {
  readonly address: string
  readonly port: number
  /** The name that its address was found by; '' when it was given by address. */
  readonly host: string
  /** It expects a header of the PROXY protocol, at its own port. */
  readonly proxyProtocol?: ProxyVersion | undefined
}

export type CheckOutcome =
  | {
      readonly ok: true
      /** What could be mended all the same, for a person. */
      readonly note?: string
    }
  | {
      readonly ok: false
      /** For a person: `HTTP status 503, 200 wanted`. */
      readonly why: string
      /** It failed for something on this side: nothing is known of the endpoint. */
      readonly here?: true
      /** It has answered that it is not what is asked for: hardly a slip. */
      readonly answered?: true
    }

export interface CheckLimits {
  /** All of a check is over by then. */
  readonly timeoutMs: number
  /** Gives the check up. */
  readonly signal: AbortSignal
}

export const failed = (why: string): CheckOutcome => ({ ok: false, why })

/** By the endpoint's own answer. */
export const denied = (why: string): CheckOutcome => ({ ok: false, why, answered: true })

export const passed: CheckOutcome = { ok: true }
