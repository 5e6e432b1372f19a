import { smallTable } from './cells.ts'
import type { Column } from './column.ts'
import { el, setText } from './dom.ts'
import { bytesForPeople, forPeople } from './format.ts'
import {
  endpointState,
  type Figure,
  figureText,
  identity,
  routeName,
  type ShownEndpoint,
  type ShownPort,
  unusedReason,
} from './service-words.ts'
import type { Row } from './store.ts'

const everyMs = 1000
/** Kept of the connections that have ended, and listed of the open ones: no more is asked for. */
const mostEnded = 50
const mostOpen = 20

interface Status {
  readonly servicePorts: readonly ServiceStatus[]
}

/** A Service with all there is to know of it, asked for each second while it is seen. */
export class OpenedService {
  readonly row: Row
  readonly #panel: HTMLElement
  readonly #stop = new AbortController()
  readonly #facts = el('dl')
  readonly #vips = smallTable('VIPs', vipColumns)
  readonly #endpoints = smallTable('Endpoints', endpointColumns)
  readonly #ended = smallTable('Last connections', endedColumns)
  readonly #open = smallTable('Open connections', openColumns)
  readonly #lost = el('p', { class: 'trouble', role: 'status' })
  /** Newest first. */
  #known: readonly EndedConnection[] = []
  #leftOut = 0
  #hadGap = false
  #after: string | undefined
  /** What this Usher does not answer is not asked for again. */
  readonly #refused = new Set<string>()

  constructor(panel: HTMLElement, row: Row, close: () => void) {
    this.row = row
    this.#panel = panel
    const closing = el('button', { type: 'button', title: 'Esc' }, 'Close')
    closing.addEventListener('click', close)
    const { servicePort, protocol, family } = row
    const title = el(
      'h2',
      {},
      routeName(servicePort),
      el('small', {}, `${protocol} ${family}`),
    )
    const parts = [this.#endpoints, this.#ended, this.#open, this.#vips]
    panel.replaceChildren(
      el('div', { class: 'title' }, title, closing),
      this.#lost,
      this.#facts,
      ...parts.map(({ element }) => element),
    )
    panel.hidden = false
    panel.scrollTop = 0
    for (const { element } of [this.#ended, this.#open])
      element.hidden = protocol !== 'TCP'
    void this.#follow()
  }

  close(): void {
    this.#stop.abort()
    this.#panel.hidden = true
    this.#panel.replaceChildren()
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      if (!document.hidden)
        await this.#look(signal).catch((error: unknown) => {
          if (!signal.aborted)
            setText(this.#lost, `No answer from Usher: ${String(error)}`)
        })
      await new Promise(resolve => setTimeout(resolve, everyMs))
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { servicePort, protocol } = this.row
    const after = this.#after === undefined ? {} : { after: this.#after }
    const newest = { routes: servicePort, limit: String(mostEnded), ...after }
    const some = { routes: servicePort, limit: String(mostOpen) }
    const [status, ended, open] = await Promise.all([
      ask<Status>('status', { service: servicePort }, signal),
      ...(protocol === 'TCP'
        ? ([
            this.#unlessRefused('ended', path => ask<Ended>(path, newest, signal)),
            this.#unlessRefused('connections', path =>
              ask<OpenConnections>(path, some, signal),
            ),
          ] as const)
        : []),
    ])
    if (ended !== undefined) this.#showEnded(ended)
    if (open !== undefined) this.#showOpen(open)
    this.#showStatus(status)
  }

  async #unlessRefused<T>(
    path: string,
    asking: (path: string) => Promise<Asked<T>>,
  ): Promise<Asked<T> | undefined> {
    if (this.#refused.has(path)) return undefined
    const asked = await asking(path)
    if ('why' in asked && asked.isFinal) this.#refused.add(path)
    return asked
  }

  #showStatus(asked: Asked<Status>): void {
    const all = 'answer' in asked ? asked.answer.servicePorts : []
    const found = all.find(one => identity(one) === identity(this.row))
    setText(this.#lost, 'why' in asked ? asked.why : found ? '' : 'This Service is gone.')
    if (found === undefined) return
    const facts = factsOf(found).flatMap(([name, value]) => [
      el('dt', {}, name),
      el('dd', {}, value),
    ])
    if (!isSame(this.#facts, facts)) this.#facts.replaceChildren(...facts)
    const errors = lastErrors(this.#known)
    const endpoints = found.endpoints.map(one => {
      return { ...one, lastError: errors.get(one.endpoint) ?? '–' }
    })
    this.#endpoints.show(endpoints, endpoints.length === 0 ? 'None.' : '')
    this.#vips.show(found.vips, '')
  }

  /** With a refusal what is known stays: it has ended. */
  #showEnded(asked: Asked<Ended>): void {
    if ('answer' in asked) this.#learn(asked.answer)
    const note = 'why' in asked ? asked.why : this.#endedNote()
    this.#ended.show(this.#known, note)
  }

  #learn({ connections, leftOut, gap, next }: Ended): void {
    this.#after = next
    const all = [...connections.toReversed(), ...this.#known]
    this.#known = all.slice(0, mostEnded)
    this.#leftOut += leftOut + all.length - this.#known.length
    this.#hadGap ||= gap
  }

  #endedNote(): string {
    const notes = [
      this.#leftOut === 0 ? '' : `${this.#leftOut} more that are not listed.`,
      this.#hadGap ? 'Some ended meanwhile that nobody kept.' : '',
    ].filter(Boolean)
    if (notes.length > 0) return notes.join(' ')
    return this.#known.length === 0 ? 'None has ended since this was opened.' : ''
  }

  #showOpen(asked: Asked<OpenConnections>): void {
    if ('why' in asked) this.#open.show([], asked.why)
    else this.#open.show(asked.answer.connections, openNote(asked.answer))
  }
}

const openNote = ({ connections, left }: OpenConnections): string =>
  connections.length === 0 ? 'None.' : left === 0 ? '' : `and ${left} more.`

/** So that what is selected in it stays. */
const isSame = (list: HTMLElement, nodes: readonly HTMLElement[]): boolean =>
  list.children.length === nodes.length &&
  nodes.every((node, i) => list.children[i]?.textContent === node.textContent)

const redIf = (isTrouble: boolean): 'red' | undefined => (isTrouble ? 'red' : undefined)

const vipColumns: readonly Column<ServiceStatus['vips'][number]>[] = [
  { name: 'Kind', read: ({ kind }) => kind },
  { name: 'Address', read: ({ vip }) => vip },
  { name: 'By', read: ({ capture }) => capture },
  {
    name: 'State',
    read: ({ state }) => state,
    more: ({ reason }) => reason,
    style: ({ state }) => redIf(state === 'failed'),
  },
]

interface NamedEndpoint extends ShownEndpoint {
  /** `ip:port`. */
  readonly endpoint: string
}

interface EndpointRow extends NamedEndpoint {
  /** What went wrong with it last, of the connections that have ended. */
  readonly lastError: string
}

const endpointColumns: readonly Column<EndpointRow>[] = [
  {
    name: 'Endpoint',
    read: ({ endpoint }) => endpoint,
    more: ({ check }) => check?.host ?? '',
  },
  {
    name: 'State',
    read: endpointState,
    more: (one, now) => stateReason(one, now),
    style: one => (endpointState(one) === 'ready' ? undefined : 'yellow'),
  },
  { name: 'Open', read: ({ active }) => figureText(active) },
  { name: 'Failures', read: ({ failures }) => figureText(failures) },
  {
    name: 'RTT',
    read: ({ rttMs }) =>
      rttMs === undefined ? '–' : `${rttMs.toFixed(rttMs < 1 ? 2 : 1)} ms`,
  },
  { name: 'Sent again', read: ({ retransmits }) => String(retransmits ?? '–') },
  { name: 'Weight', read: ({ weight }) => String(weight) },
  { name: 'Last error', read: ({ lastError }) => lastError },
]

/** Rests come and go, and rows must not grow and shrink with them; the last error says why. */
const stateReason = (endpoint: ShownEndpoint, now: number): string =>
  endpointState(endpoint) === 'cooling down'
    ? ''
    : [unusedReason(endpoint), timesOf(endpoint, now)].filter(Boolean).join(', ')

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
const lastErrors = (ended: readonly EndedConnection[]): ReadonlyMap<string, string> => {
  const errors = new Map<string, string>()
  for (const { attempts, endedAt } of ended)
    for (const { endpoint, result } of attempts)
      if (!['connected', 'lost'].includes(result) && !errors.has(endpoint))
        errors.set(endpoint, `${result} at ${clockTime(endedAt)}`)
  return errors
}

const bytesOf = ({
  bytesToBackend,
  bytesToClient,
}: Pick<EndedConnection, 'bytesToBackend' | 'bytesToClient'>): string =>
  `${bytesForPeople(bytesToBackend)} / ${bytesForPeople(bytesToClient)}`

/** Causes that are the client's doing, or nobody's. */
const noFault = /^(?:--|c.)$/i

const endedColumns: readonly Column<EndedConnection>[] = [
  { name: 'Ended', read: ({ endedAt }) => clockTime(endedAt) },
  {
    name: 'How it ended',
    read: ({ causeText }) => causeText,
    more: ({ cause, detail }) =>
      [cause === '--' ? '' : cause, detail].filter(Boolean).join(' '),
    style: ({ cause }) => redIf(!noFault.test(cause)),
  },
  { name: 'Client', read: ({ client }) => client },
  {
    name: 'Endpoint',
    read: ({ endpoint }) => endpoint || 'none',
    more: one => failedAttempts(one),
  },
  { name: 'Took', read: ({ totalMs }) => millis(totalMs) },
  { name: 'To it / to client', read: bytesOf },
]

/** `after 10.0.0.7:80 refused, 1 ms`; of more than one there are the numbers: `11 attempts: 10 refused, 1 timeout`. */
const failedAttempts = ({ attempts }: EndedConnection): string => {
  const failed = attempts.filter(({ result }) => result !== 'connected')
  const [only] = failed
  if (only === undefined) return ''
  if (failed.length === 1)
    return `after ${only.endpoint} ${only.result}, ${millis(only.ms)}`
  const times = new Map<string, number>()
  for (const { result } of failed) times.set(result, (times.get(result) ?? 0) + 1)
  if (times.size === 1) return `${failed.length} attempts, all ${only.result}`
  const texts = Array.from(times, ([result, number]) => `${number} ${result}`)
  return `${failed.length} attempts: ${texts.join(', ')}`
}

const openColumns: readonly Column<OpenConnection>[] = [
  { name: 'Client', read: ({ client }) => client },
  { name: 'Endpoint', read: ({ endpoint }) => endpoint || 'none' },
  { name: 'State', read: ({ state }) => state },
  { name: 'Age', read: ({ ageMs }) => forPeople(ageMs) },
  { name: 'Idle', read: ({ idleMs }) => (idleMs === null ? '–' : forPeople(idleMs)) },
  { name: 'To it / to client', read: bytesOf },
]

const millis = (ms: number): string =>
  ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : forPeople(ms)

/** `15:04:05`, of where the browser is. */
const clockTime = (iso: string): string => new Date(iso).toLocaleTimeString('en-GB')

/** What else there is to say of a Service, as names and values. */
const factsOf = (service: ServiceStatus): readonly (readonly [string, string])[] => {
  const { affinityMs, verdicts, options, failedBy, paused, state, reason } = service
  const causes = Object.entries(failedBy).map(([cause, times]) => `${times} ${cause}`)
  return [
    ['State', [state, reason].filter(Boolean).join(': ')],
    ...(paused === null
      ? []
      : [
          [
            'Paused',
            `since ${clockTime(paused.since)}${paused.until === null ? '' : `, until ${clockTime(paused.until)}`}; ${figureText(service.held)} wait`,
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
    ['Since the start', countedText(service, causes)],
    ...((service.held ?? 0) + (service.queued ?? 0) > 0
      ? [
          [
            'Waiting',
            `${figureText(service.held)} for an endpoint, ${figureText(service.queued)} for a place`,
          ] as const,
        ]
      : []),
    ...(service.lastError === '' ? [] : [['Last error', service.lastError] as const]),
  ]
}

const countedText = (service: ServiceStatus, causes: readonly string[]): string => {
  const { accepted, failed, retries, bytesToBackend, bytesToClient } = service
  if (accepted === null) return 'not counted: no relay of Usher carries these connections'
  const why = causes.length === 0 ? '' : ` (${causes.join(', ')})`
  return (
    `${accepted} accepted, ${figureText(failed)} failed${why}, ${figureText(retries)} retries, ` +
    `${figureText(bytesToBackend, bytesForPeople)} to backends, ${figureText(bytesToClient, bytesForPeople)} to clients`
  )
}

// What the page reads of `/status?service=`, `/ended` and `/connections`.

interface ServiceStatus extends ShownPort {
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
  readonly endpoints: readonly NamedEndpoint[]
  readonly options: Readonly<Record<string, string>>
  readonly paused: { readonly since: string; readonly until: string | null } | null
  readonly accepted: Figure
  readonly failed: Figure
  readonly failedBy: Readonly<Record<string, number>>
  readonly retries: Figure
  readonly held: Figure
  readonly queued: Figure
  readonly bytesToBackend: Figure
  readonly bytesToClient: Figure
  readonly lastError: string
}

interface EndedConnection {
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

interface Ended {
  readonly connections: readonly EndedConnection[]
  /** How many more have ended since. */
  readonly leftOut: number
  /** Others may have ended, nobody knows how many: it was not asked for 10 s, or Usher began anew. */
  readonly gap: boolean
  /** Where the next answer is to begin. */
  readonly next: string
}

interface OpenConnections {
  readonly connections: readonly OpenConnection[]
  /** How many more there are. */
  readonly left: number
}

interface OpenConnection {
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
interface Refused {
  readonly why: string
  /** It would be the same the next time: of who asks, or of what Usher is. */
  readonly isFinal: boolean
}

/** What was asked for, or why there is none. */
type Asked<T> = { readonly answer: T } | Refused

/** Not for this browser; nothing that Usher has in this mode. */
const finalStatuses: ReadonlySet<number> = new Set([403, 409])

/** Paths are relative: the page may be under a prefix. */
const ask = async <T>(
  path: string,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Asked<T>> => {
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, { signal })
  if (response.ok) return { answer: (await response.json()) as T }
  const text = await response.text()
  return {
    why: refusalText(text) || `${path}: ${response.status}`,
    isFinal: finalStatuses.has(response.status),
  }
}

/** Orders and what goes with them are refused in JSON, all else in plain text. */
const refusalText = (text: string): string => {
  try {
    const { error } = JSON.parse(text) as {
      readonly error?: { readonly message?: string }
    }
    return error?.message ?? text
  } catch {
    return text.trim()
  }
}
