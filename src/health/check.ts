import type { ProxyVersion } from '../util/proxy-header.ts'

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
  readonly tier?: number | undefined
  /** One with 0 is for when the others of its tier fail. */
  readonly weight?: number | undefined
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
