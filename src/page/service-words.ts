import type { Style } from './column.ts'

// A Service and its endpoints in words and figures, for the page and the command line.

/** States of a Service, and how soon to look: 3 clients suffer, 2 they may soon, 1 worth knowing, 0 all is well. */
export const serviceStates = {
  ok: 0,
  /** Clients are served; an endpoint is down, not ready or cooling down, or one of several VIPs is not served. */
  degraded: 2,
  /** Clients fail now: a VIP can't be listened on, none is served, all endpoints cool down, the last client got none or clients wait for one. */
  failing: 3,
  /** There are endpoints, and none is up; those that are down by their check may be tried all the same. */
  down: 3,
  /** Or none for this node, by policy or hints. */
  'no endpoints': 1,
  /** By order: new clients wait. */
  paused: 2,
  /** An endpoint gets no new connections, by order. */
  draining: 2,
} as const

export type ServiceState = keyof typeof serviceStates

/** Red is what clients suffer from, and nothing else. */
export const severityStyle = (severity: number): Style | undefined =>
  severity >= 3 ? 'red' : severity === 2 ? 'yellow' : undefined

/** How many Services are in each state. */
export type StateCounts = ReadonlyMap<ServiceState, number>

interface Stated {
  readonly servicePort: string
  readonly state?: ServiceState | undefined
}

/** Of the ports and IP families of each Service the worst. */
const worstOf = (ports: Iterable<Stated>): readonly Stated[] => {
  const worst = new Map<string, Stated>()
  for (const port of ports) {
    const { servicePort, state = 'ok' } = port
    const service = isOfService(port) ? withoutPort(servicePort) : servicePort
    const before = worst.get(service)?.state
    if (before === undefined || serviceStates[state] > serviceStates[before])
      worst.set(service, { servicePort: service, state })
  }
  return [...worst.values()]
}

export const countStates = (
  ports: Iterable<{ readonly state?: ServiceState | undefined }>,
): StateCounts => {
  const counts = new Map<ServiceState, number>()
  for (const { state } of ports)
    if (state !== undefined) counts.set(state, (counts.get(state) ?? 0) + 1)
  return counts
}

/** What the headline is made of besides the states of Services. */
export interface Overall {
  readonly draining: boolean
  /** Why Usher is not healthy; empty when it is. */
  readonly unhealthy: readonly string[]
  /** `error`: why it can't be read now; '' when it can. */
  readonly source: { readonly error: string }
  readonly problemCount: number
}

export interface Headline {
  /** `runs`, `1 Service failing`, `3 without endpoints`, ... */
  readonly parts: readonly string[]
  /** Of the worst of them; see `serviceStates`. */
  readonly severity: number
}

/** What there is to know at a glance; what is worst comes first after how Usher itself is. */
export const headlineOf = (overall: Overall, ports: Iterable<Stated>): Headline => {
  const { draining, unhealthy, source, problemCount } = overall
  const services = worstOf(ports)
  const noun = services.every(one => !isOfService(one)) ? 'route' : 'Service'
  const found: (readonly [severity: number, text: string])[] = []
  if (unhealthy.length > 0) found.push([3, `is not healthy: ${unhealthy.join('; ')}`])
  else if (draining) found.push([2, 'drains: it waits for open connections to end'])
  else found.push([0, 'runs'])
  if (source.error !== '') found.push([2, 'source error'])
  const bad = [...countStates(services)].filter(([state]) => serviceStates[state] > 0)
  bad.sort(([a], [b]) => serviceStates[b] - serviceStates[a] || (a < b ? -1 : 1))
  for (const [i, [state, number]] of bad.entries()) {
    const what = i > 0 ? '' : ` ${noun}${number === 1 ? '' : 's'}`
    const how = state === 'no endpoints' ? 'without endpoints' : state
    found.push([serviceStates[state], `${number}${what} ${how}`])
  }
  if (problemCount > 0)
    found.push([2, problemCount === 1 ? '1 problem' : `${problemCount} problems`])
  return {
    parts: found.map(([, text]) => text),
    severity: Math.max(...found.map(([severity]) => severity)),
  }
}

/** What of `/status` a row of a table of Services is made of. */
export interface ShownPort {
  /** `namespace/name:port`. */
  readonly servicePort: string
  readonly protocol: string
  readonly family: string
  readonly state: ServiceState
  /** Why the state is what it is, or why endpoints are missing; '' when all is well. */
  readonly reason: string
  /** Those that are up and get new connections, those that cool down after a failure among them, and all. */
  readonly endpointCounts: { readonly usable: number; readonly all: number }
}

/** The same Service in two looks. */
export const identity = (
  port: Pick<ShownPort, 'servicePort' | 'protocol' | 'family'>,
): string => `${port.servicePort} ${port.protocol} ${port.family}`

/** A route is called by its name alone, the port of a Service as `namespace/name:port`. */
export const routeName = (servicePort: string): string =>
  servicePort.replace(/^route\//, '')

/** `namespace/name`. */
export const withoutPort = (servicePort: string): string =>
  servicePort.replace(/:[^/]*$/, '')

/** Routes of a sidecar are of none. */
export const isOfService = ({ servicePort }: Pick<ShownPort, 'servicePort'>): boolean =>
  !servicePort.startsWith('route/')

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

/** null where the kernel carries the connections, and nothing counts them. */
export type Figure = number | null

/** `-` for what is not counted. */
export const figureText = (
  figure: Figure,
  text: (figure: number) => string = String,
): string => (figure === null ? '-' : text(figure))

/** Of one Service, in the order of `countedFields`. */
export type Counts = readonly number[]

export const countsOf = (port: Readonly<Record<CountedField, Figure>>): Counts =>
  countedFields.map(field => port[field] ?? 0)

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
  readonly active: Figure
  readonly failures: Figure
  readonly rttMs?: number | undefined
  readonly retransmits?: number | undefined
  readonly coolingDown: boolean
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

/** It is up, and gets new connections of some clients now. */
export const isUsable = ({ eligible, drained, check }: ShownEndpoint): boolean =>
  eligible && drained === null && check?.up !== false

/** One word, or two. */
export const endpointState = (
  endpoint: ShownEndpoint,
): ShownEndpoint['state'] | 'drained' | 'down' | 'unused' | 'cooling down' => {
  const { drained, check, state, eligible, coolingDown } = endpoint
  if (drained !== null) return 'drained'
  if (check?.up === false) return 'down'
  if (state === 'not ready') return state
  if (!eligible) return state === 'terminating' ? state : 'unused'
  return coolingDown ? 'cooling down' : state
}

/** What follows the state: why it is so; '' where there is nothing to say. */
export const unusedReason = (endpoint: ShownEndpoint): string => {
  const state = endpointState(endpoint)
  if (state !== 'down') return reasons.get(state) ?? ''
  const { eligible, check } = endpoint
  return [check?.why, eligible ? triedAllTheSame : ''].filter(Boolean).join(', ')
}

/** What is said of an endpoint that is down while no other is up. */
export const triedAllTheSame = 'tried all the same'

const reasons: ReadonlyMap<string, string> = new Map([
  ['unused', 'by policy or hints'],
  ['cooling down', 'after a failure'],
  ['drained', 'by order'],
])
