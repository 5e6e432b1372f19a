import type { ShownEndpoint } from './endpoint-words.ts'

// What the page reads of `/status?service=`, `/ended` and `/connections`.

export interface ServiceStatus {
  readonly servicePort: string
  readonly protocol: string
  readonly family: string
  readonly affinityMs: number
  readonly verdicts: Readonly<Record<'internal' | 'external' | 'node', string>>
  readonly vips: readonly {
    readonly kind: string
    readonly vip: string
    readonly capture: string
    readonly listen: string
    readonly state: string
    readonly reason: string
  }[]
  readonly endpoints: readonly ShownEndpoint[]
  readonly options: Readonly<Record<string, string>>
  readonly paused: { readonly since: string; readonly until: string | null } | null
  readonly accepted: number
  readonly failed: number
  readonly failedBy: Readonly<Record<string, number>>
  readonly retries: number
  readonly held: number
  readonly queued: number
  readonly bytesToBackend: number
  readonly bytesToClient: number
  readonly lastError: string
}

export interface EndedConnection {
  readonly client: string
  /** '' when none took it. */
  readonly endpoint: string
  readonly attempts: readonly {
    readonly endpoint: string
    readonly result: string
    readonly ms: number
  }[]
  readonly bytesToBackend: number
  readonly bytesToClient: number
  readonly dialMs: number
  readonly totalMs: number
  /** ISO 8601. */
  readonly endedAt: string
  readonly cause: string
  readonly causeText: string
  readonly detail: string
}

export interface Ended {
  readonly connections: readonly EndedConnection[]
  /** How many more have ended since. */
  readonly leftOut: number
  /** Others may have ended, nobody knows how many: it was not asked for 10 s, or Usher began anew. */
  readonly gap: boolean
  /** Where the next answer is to begin. */
  readonly next: string
}

export interface OpenConnections {
  readonly connections: readonly OpenConnection[]
  /** How many more there are. */
  readonly left: number
}

export interface OpenConnection {
  readonly id: string
  readonly client: string
  readonly endpoint: string
  readonly state: string
  readonly ageMs: number
  readonly idleMs: number | null
  readonly bytesToBackend: number
  readonly bytesToClient: number
}

/** Why there is no answer, in Usher's words. */
export interface Refused {
  readonly why: string
  /** It would be the same the next time: of who asks, or of what Usher is. */
  readonly isFinal: boolean
}

/** What was asked for, or why there is none. */
export type Asked<T> = { readonly answer: T } | Refused

/** Not for this browser; nothing that Usher has in this mode. */
const finalStatuses: ReadonlySet<number> = new Set([403, 409])

/** Paths are relative: the page may be under a prefix. */
export const ask = async <T>(
  path: string,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Asked<T>> => {
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, { signal })
  if (response.ok) return { answer: (await response.json()) as T }
  const text = await response.text()
  return {
    why: wordsOf(text) || `${path}: ${response.status}`,
    isFinal: finalStatuses.has(response.status),
  }
}

/** Orders and what goes with them are refused in JSON, all else in plain text. */
const wordsOf = (text: string): string => {
  try {
    const { error } = JSON.parse(text) as {
      readonly error?: { readonly message?: string }
    }
    return error?.message ?? text
  } catch {
    return text.trim()
  }
}
