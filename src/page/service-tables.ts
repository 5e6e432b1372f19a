import { cell } from './cells.ts'
import type { Cell } from './columns.ts'
import { endpointState, type ShownEndpoint, whyNotUsed } from './endpoint-words.ts'
import { bytesForPeople, forPeople } from './format.ts'
import type { EndedConnection, OpenConnection, ServiceStatus } from './service-status.ts'

// Rows of the tables of an opened Service.

type Rows = readonly (readonly Cell[])[]

export const vipTitles = ['Kind', 'Address', 'By', 'State']

export const vipRows = ({ vips }: ServiceStatus): Rows =>
  vips.map(({ kind, vip, capture, state, reason }) => [
    cell(kind),
    cell(vip),
    cell(capture),
    cell(state, reason, state === 'failed'),
  ])

export const endpointTitles = [
  'Endpoint',
  'State',
  'Open',
  'Failures',
  'RTT',
  'Sent again',
  'Weight',
  'Last error',
]

/** `errors`: what went wrong with an endpoint last, of the connections that have ended. */
export const endpointRows = (
  { endpoints }: ServiceStatus,
  errors: ReadonlyMap<string, string>,
  now: number,
): Rows =>
  endpoints.map(endpoint => {
    const { active, failures, rttMs, retransmits, weight, check } = endpoint
    return [
      cell(endpoint.endpoint, check?.host ?? ''),
      stateCell(endpoint, now),
      cell(String(active)),
      cell(String(failures)),
      cell(rttMs === undefined ? '–' : `${rttMs.toFixed(rttMs < 1 ? 2 : 1)} ms`),
      cell(retransmits === undefined ? '–' : String(retransmits)),
      cell(String(weight)),
      cell(errors.get(endpoint.endpoint) ?? '–'),
    ]
  })

const stateCell = (endpoint: ShownEndpoint, now: number): Cell => {
  const state = endpointState(endpoint)
  // Rests come and go, and rows must not grow and shrink with them; the last error says why.
  if (state === 'resting') return cell(state, '', true)
  const more = [whyNotUsed(endpoint), timesOf(endpoint, now)].filter(Boolean).join(', ')
  return cell(state, more, state !== 'ready')
}

/** Since when it is so, and until when. */
const timesOf = ({ drained, check }: ShownEndpoint, now: number): string => {
  if (drained !== null)
    return drained.until === null
      ? `since ${clockTime(drained.since)}, until it is taken back`
      : `until ${clockTime(drained.until)}`
  if (check === null || check.up || check.since === null) return ''
  return `for ${forPeople(now - Date.parse(check.since))}`
}

/** By endpoint, the newest attempt that went wrong. */
export const lastErrors = (
  ended: readonly EndedConnection[],
): ReadonlyMap<string, string> => {
  const errors = new Map<string, string>()
  for (const { attempts, endedAt } of ended)
    for (const { endpoint, result } of attempts)
      if (!['connected', 'lost'].includes(result) && !errors.has(endpoint))
        errors.set(endpoint, `${result} at ${clockTime(endedAt)}`)
  return errors
}

export const endedTitles = [
  'Ended',
  'Client',
  'Endpoint',
  'How it ended',
  'Took',
  'To it',
  'To client',
]

/** Causes that are the client's doing, or nobody's. */
const noFault = /^(?:--|c.)$/i

export const endedRows = (ended: readonly EndedConnection[]): Rows =>
  ended.map(one => [
    cell(clockTime(one.endedAt)),
    cell(one.client),
    cell(one.endpoint || 'none', failedAttempts(one)),
    cell(
      one.causeText,
      [one.cause === '--' ? '' : one.cause, one.detail].filter(Boolean).join(' '),
      !noFault.test(one.cause),
    ),
    cell(millis(one.totalMs)),
    cell(bytesForPeople(one.bytesToBackend)),
    cell(bytesForPeople(one.bytesToClient)),
  ])

/** `after 10.0.0.7:80 refused, 1 ms`. */
const failedAttempts = ({ attempts }: EndedConnection): string => {
  const failed = attempts.filter(({ result }) => result !== 'connected')
  const texts = failed.map(one => `${one.endpoint} ${one.result}, ${millis(one.ms)}`)
  return texts.length === 0 ? '' : `after ${texts.join('; ')}`
}

export const openTitles = [
  'Client',
  'Endpoint',
  'State',
  'Age',
  'Idle',
  'To it',
  'To client',
]

export const openRows = (open: readonly OpenConnection[]): Rows =>
  open.map(one => [
    cell(one.client),
    cell(one.endpoint || 'none'),
    cell(one.state),
    cell(forPeople(one.ageMs)),
    cell(one.idleMs === null ? '–' : forPeople(one.idleMs)),
    cell(bytesForPeople(one.bytesToBackend)),
    cell(bytesForPeople(one.bytesToClient)),
  ])

const millis = (ms: number): string =>
  ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : forPeople(ms)

/** `15:04:05`, of where the browser is. */
const clockTime = (iso: string): string => new Date(iso).toLocaleTimeString('en-GB')

/** What else there is to say of a Service, as names and values. */
export const factsOf = (
  service: ServiceStatus,
): readonly (readonly [string, string])[] => {
  const { affinityMs, verdicts, options, failedBy, paused } = service
  const causes = Object.entries(failedBy).map(([cause, times]) => `${times} ${cause}`)
  return [
    ...(paused === null
      ? []
      : [
          [
            'Paused',
            `since ${clockTime(paused.since)}${paused.until === null ? '' : `, until ${clockTime(paused.until)}`}; ${service.held} wait`,
          ] as const,
        ]),
    ['Affinity', affinityMs === 0 ? 'none' : `by client, ${forPeople(affinityMs)}`],
    [
      'New clients',
      verdicts.internal === verdicts.external && verdicts.external === verdicts.node
        ? verdicts.internal
        : `${verdicts.internal} from inside, ${verdicts.external} from outside, ${verdicts.node} from this node`,
    ],
    ...Object.entries(options),
    [
      'Since the start',
      `${service.accepted} accepted, ${service.failed} failed${causes.length === 0 ? '' : ` (${causes.join(', ')})`}, ${service.retries} retries, ` +
        `${bytesForPeople(service.bytesToBackend)} to backends, ${bytesForPeople(service.bytesToClient)} to clients`,
    ],
    ...(service.held + service.queued > 0
      ? [
          [
            'Waiting',
            `${service.held} for an endpoint, ${service.queued} for a place`,
          ] as const,
        ]
      : []),
    ...(service.lastError === '' ? [] : [['Last error', service.lastError] as const]),
  ]
}
