// A Service and its endpoints in words and figures, for the page and the command line.

/** States of a Service, and how soon to look: 3 clients suffer, 2 they would, 1 worth knowing, 0 all is well. */
export const serviceStates = {
  ok: 0,
  /** A VIP can't be listened on. */
  'not listening': 3,
  /** There are endpoints, and none gets connections. */
  'none usable': 3,
  /** All that get connections have failed a moment ago: clients are still waiting. */
  failing: 3,
  'no endpoints': 2,
  paused: 1,
  'not captured': 1,
  starting: 1,
} as const

export type ServiceState = keyof typeof serviceStates

/** What of `/status` a row of a table of Services is made of. */
export interface ShownPort {
  /** `namespace/name:port`. */
  readonly servicePort: string
  readonly protocol: string
  readonly family: string
  readonly state: ServiceState
  /** Why the state is what it is, or why endpoints are missing; '' when all is well. */
  readonly reason: string
  /** Those that get new connections, those that rest after a failure among them, and all. */
  readonly endpointCounts: { readonly usable: number; readonly all: number }
}

/** The same Service in two looks. */
export const identity = (
  port: Pick<ShownPort, 'servicePort' | 'protocol' | 'family'>,
): string => `${port.servicePort} ${port.protocol} ${port.family}`

/** A route is called by its name alone, the port of a Service as `namespace/name:port`. */
export const routeName = (servicePort: string): string =>
  servicePort.replace(/^route\//, '')

/** `usable/all`. */
export const endpointsText = ({
  endpointCounts: { usable, all },
}: Pick<ShownPort, 'endpointCounts'>): string => `${usable}/${all}`

/** What of `/status` is counted, in the order in which the page is told. */
export const countedFields = [
  'active',
  'accepted',
  'failed',
  'retries',
  'bytesToBackend',
  'bytesToClient',
] as const

type CountedField = (typeof countedFields)[number]

/** Of one Service, in the order of `countedFields`. */
export type Counts = readonly number[]

export const countsOf = (port: Readonly<Record<CountedField, number>>): Counts =>
  countedFields.map(field => port[field])

/** A second. */
export type Rates = Readonly<Record<Exclude<CountedField, 'active'>, number>>

/** Of what was not there before there is none; a data plane that was started again counts from 0. */
export const ratesOf = (
  before: Counts | undefined,
  now: Counts,
  seconds: number,
): Rates => {
  const rate = (field: CountedField): number => {
    const at = countedFields.indexOf(field)
    const more = (now[at] ?? 0) - (before?.[at] ?? Infinity)
    return seconds > 0 ? Math.max(0, more) / seconds : 0
  }
  return {
    accepted: rate('accepted'),
    failed: rate('failed'),
    retries: rate('retries'),
    bytesToBackend: rate('bytesToBackend'),
    bytesToClient: rate('bytesToClient'),
  }
}

/** What of `/status` is shown of an endpoint. */
export interface ShownEndpoint {
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
