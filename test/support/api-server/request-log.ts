import type { Target, Verb } from './target.ts'

export interface LoggedRequest {
  /** Unix time in milliseconds, with fractions. */
  readonly at: number
  readonly verb: Verb
  /** Plural name; '' for discovery. */
  readonly resource: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly userAgent: string
  /** 0 until it is answered. */
  readonly status: number
}

const kept = 100_000

/** What clients asked for, in order. */
export class RequestLog {
  readonly #entries: (LoggedRequest & { status: number })[] = []

  /** The function returned notes the status. */
  add(target: Target, userAgent: string): (status: number) => void {
    const entry = {
      at: performance.timeOrigin + performance.now(),
      verb: target.verb,
      resource: target.resource?.plural ?? '',
      path: target.path,
      query: Object.fromEntries(target.query),
      userAgent,
      status: 0,
    }
    this.#entries.push(entry)
    if (this.#entries.length > kept) this.#entries.shift()
    return status => {
      entry.status = status
    }
  }

  get all(): readonly LoggedRequest[] {
    return this.#entries
  }

  /** Those for one collection. */
  of(resource: string, verb?: Verb): LoggedRequest[] {
    return this.#entries.filter(
      each => each.resource === resource && (verb === undefined || each.verb === verb),
    )
  }

  /** The most requests within any second. */
  peakPerSecond(): number {
    let peak = 0
    let first = 0
    for (const [i, { at }] of this.#entries.entries()) {
      while ((this.#entries[first]?.at ?? at) <= at - 1000) first += 1
      peak = Math.max(peak, i - first + 1)
    }
    return peak
  }

  clear(): void {
    this.#entries.length = 0
  }
}
