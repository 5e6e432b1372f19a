// The state of an endpoint in words, for the page and the command line.

/** What of `/status` they are made of. */
export interface ShownEndpoint {
  /** `ip:port`. */
  readonly endpoint: string
  readonly state: 'ready' | 'terminating' | 'not ready'
  readonly eligible: boolean
  readonly active: number
  readonly failures: number
  readonly rttMs?: number | undefined
  readonly retransmits?: number | undefined
  readonly resting: boolean
  readonly drained: { readonly since: string; readonly until: string | null } | null
  readonly weight: number
  readonly check: {
    readonly up: boolean
    /** ISO 8601; null before the first check. */
    readonly since: string | null
    readonly why: string
    readonly host: string
  } | null
}

/** It gets new connections of some clients now. */
export const isUsable = ({ eligible, drained }: ShownEndpoint): boolean =>
  eligible && drained === null

/** One word, or two. */
export const endpointState = (
  endpoint: ShownEndpoint,
): ShownEndpoint['state'] | 'drained' | 'down' | 'unused' | 'resting' => {
  const { drained, check, state, eligible, resting } = endpoint
  if (drained !== null) return 'drained'
  if (check?.up === false) return 'down'
  if (state === 'not ready') return state
  if (!eligible) return 'unused'
  return resting ? 'resting' : state
}

/** What follows the state: why it is so; '' where there is nothing to say. */
export const unusedReason = (endpoint: ShownEndpoint): string => {
  const state = endpointState(endpoint)
  if (state === 'down') return endpoint.check?.why ?? ''
  return reasons.get(state) ?? ''
}

const reasons: ReadonlyMap<string, string> = new Map([
  ['unused', 'by policy or hints'],
  ['resting', 'after a failure'],
  ['drained', 'by order'],
])
