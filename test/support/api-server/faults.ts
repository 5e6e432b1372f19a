import type { Target, Verb } from './target.ts'

/** What may happen to a request instead of, or on top of, its answer. */
export type Fault =
  /** Any error code, with the Status object that belongs to it. */
  | {
      readonly kind: 'status'
      readonly code: number
      readonly retryAfterSeconds?: number
    }
  /** The request is read and never answered. */
  | { readonly kind: 'stall' }
  /** Headers, and then silence. */
  | { readonly kind: 'silence' }
  /** The connection is neither read nor written any more, without a FIN. */
  | { readonly kind: 'half-open' }
  /** An answer after so many milliseconds. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** The connection ends after so many bytes of the body (0: instead of an answer). */
  | { readonly kind: 'cut'; readonly how: 'fin' | 'rst'; readonly afterBytes: number }
  /** The body ends there as if it were complete. */
  | { readonly kind: 'truncate'; readonly afterBytes: number }
  /** The bytes trickle. */
  | { readonly kind: 'slow'; readonly bytesPerSecond: number }
  /** A body, or a first line of a watch, that is no JSON. */
  | { readonly kind: 'garbage' }
  /** A watch begins with one line of that many bytes. */
  | { readonly kind: 'huge-line'; readonly bytes: number }
  /** A watch ends at once, in good order. */
  | { readonly kind: 'close' }
  /** Each event of the watch comes twice. */
  | { readonly kind: 'duplicate' }
  /** Each event of the watch is followed by an older one. */
  | { readonly kind: 'stale' }

export interface Scope {
  /** Plural names; all when left out. */
  readonly resources?: readonly string[]
  readonly verbs?: readonly Verb[]
  /** After so many requests the fault is gone; for ever when left out. */
  readonly times?: number
}

interface Rule {
  readonly fault: Fault
  readonly scope: Scope
  left: number
}

/** Faults that wait for their requests. */
export class Faults {
  readonly #rules = new Set<Rule>()

  /** The function returned takes the fault away again. */
  add(fault: Fault, scope: Scope = {}): () => void {
    const rule = { fault, scope, left: scope.times ?? Infinity }
    this.#rules.add(rule)
    return () => void this.#rules.delete(rule)
  }

  clear(): void {
    this.#rules.clear()
  }

  /** How many wait. */
  get size(): number {
    return this.#rules.size
  }

  /** The fault of this request: that of the oldest rule that means it. */
  take(target: Target): Fault | undefined {
    for (const rule of this.#rules) {
      if (!means(rule.scope, target)) continue
      rule.left -= 1
      if (rule.left <= 0) this.#rules.delete(rule)
      return rule.fault
    }
    return undefined
  }
}

const means = ({ resources, verbs }: Scope, { resource, verb }: Target): boolean =>
  (resources === undefined || resources.includes(resource?.plural ?? '')) &&
  (verbs === undefined || verbs.includes(verb))
