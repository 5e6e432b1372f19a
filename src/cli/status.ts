import type { OptionsOf } from '../config/options.ts'
import { askPorts, askStatus, exitCodeOf } from './ask-usher.ts'
import { jsonText } from './document-text.ts'
import { bareName, isCalled, type Named, notFound } from './listings.ts'
import {
  type Io,
  printAll,
  bytesForPeople,
  clientsWait,
  count,
  forPeople,
  optionTexts,
  visible,
  servedText,
} from './io.ts'
import {
  type ChoiceStatus,
  type EndpointRun,
  type PrintedPort,
  printedShape,
  type StatusOf,
  tookOverText,
  type VipStatus,
} from '../observe/status.ts'
import {
  countStates,
  headlineOf,
  isOfService,
  isUsable,
  type Overall,
  type ServiceState,
  serviceStates,
  severityStyle,
  type StateCounts,
  triedAllTheSame,
} from '../page/service-words.ts'
import { aligned, columnWidths, styled, type Cells, type Cell } from './text-table.ts'

/** `usher status`: 0 when Usher answered (healthy or not), 1 when nothing has a name that was given, 3 when it did not answer. */
export const status = (
  { address, controlSocket, json, service, all }: OptionsOf<'status'>,
  io: Io,
  timeoutMs?: number,
): Promise<number> =>
  exitCodeOf('status', io, async () => {
    const where = { controlSocket, address }
    const names = service.map(name => bareName(name, 'services'))
    if (json) {
      const { document, raw } = await askStatus(where, timeoutMs)
      if (names.length === 0) io.out(`${jsonText(raw, 2)}\n`)
      else
        io.out(`${jsonText({ ...document, servicePorts: called(document, names) }, 2)}\n`)
      return 0
    }
    const document = await askPorts(where, printedShape, timeoutMs)
    const shown = names.length > 0 ? called(document, names) : worthALook(document, all)
    printAll(statusText(document, Date.now(), io.colour, shown), io)
    return 0
  })

/** Those that are meant by these names. Throws NOT_FOUND. */
const called = <P extends Named>(
  { servicePorts }: StatusOf<P>,
  names: readonly string[],
): readonly P[] => {
  const unknown = names.find(name => !servicePorts.some(port => isCalled(port, name)))
  if (unknown !== undefined) throw notFound(unknown, servicePorts)
  return servicePorts.filter(port => names.some(name => isCalled(port, name)))
}

/** With more of them only those that are not ok are printed. */
const mostShown = 20

const worthALook = ({ servicePorts }: Printed, isAll: boolean): readonly PrintedPort[] =>
  isAll || servicePorts.length <= mostShown
    ? servicePorts
    : servicePorts
        .filter(({ state = 'ok' }) => state !== 'ok')
        .toSorted((a, b) => severityOf(b) - severityOf(a))
        .slice(0, mostShown)

const severityOf = ({ state = 'ok' }: PrintedPort): number => serviceStates[state]

type Printed = StatusOf<PrintedPort>

/** Whether there is a relay that counts; kernel modes have none, but nftables where it is asked for. */
const hasRelay = ({ mode, relay }: Printed): boolean =>
  mode === 'userspace' || relay !== null

/** Of whom the relay has figures: all in userspace mode, else some or no VIPs of a ServicePort. */
const countedOf = (document: Printed, { vips, active }: PrintedPort): Counted => {
  if (active === null) return 'none'
  if (document.mode === 'userspace') return 'all'
  if (!hasRelay(document)) return 'none'
  const relayed = vips.filter(({ capture }) => !ofKernel.has(capture))
  if (relayed.length === 0) return 'none'
  return relayed.length === vips.length ? 'all' : 'some'
}

type Counted = 'all' | 'some' | 'none'

const ofKernel: ReadonlySet<string> = new Set(['kernel', 'not captured'])

const sticky = ({ affinityMs }: PrintedPort): readonly string[] =>
  affinityMs > 0 ? [`sticky for ${forPeople(affinityMs)}`] : []

/** A line, or none. */
const optionsText = ({ options }: PrintedPort): readonly string[] => {
  const given = optionTexts(options)
  return given.length === 0 ? [] : [`with ${visible(given.join(', '))}`]
}

/** Of a ServicePort that is not paused; '' when no client waits. */
const waitingText = (port: PrintedPort): string => {
  const { held, queued } = waitingOf(port)
  if (port.paused !== null || held + queued === 0) return ''
  if (held === 0) return `${clientsWait(queued)} for a place`
  return `${clientsWait(held)} for an endpoint${queued === 0 ? '' : `, ${queued} for a place`}`
}

/** `4 failed (2 PR, 2 sQ)`. */
const failedText = ({ failed, failedBy }: PrintedPort): string => {
  const causes = Object.entries(failedBy).map(([cause, times]) => `${times} ${cause}`)
  return `${failed} failed${causes.length === 0 ? '' : ` (${causes.join(', ')})`}`
}

/** 0 where nothing is counted, and so no client waits. */
const waitingOf = ({ held, queued }: PrintedPort) => ({
  held: held ?? 0,
  queued: queued ?? 0,
})

/** Of one that is counted. */
const figures = (port: PrintedPort): string => {
  const { queued, held } = waitingOf(port)
  const { paused } = port
  const holdRefused = port.holdRefused ?? 0
  return [
    `${port.active} active`,
    `${port.accepted} accepted`,
    failedText(port),
    queued > 0 ? `${queued} waiting for a place` : '',
    held > 0 && paused === null ? `${held} waiting for an endpoint` : '',
    holdRefused > 0 ? `${holdRefused} refused as too many were waiting` : '',
    port.protocol === 'TCP'
      ? count(port.retries ?? 0, 'retry', 'retries')
      : count(port.datagrams ?? 0, 'datagram'),
    `${bytesForPeople(port.bytesToBackend ?? 0)} to backends`,
    `${bytesForPeople(port.bytesToClient ?? 0)} to clients`,
    ...sticky(port),
  ]
    .filter(Boolean)
    .join(', ')
}

const trafficTexts = (port: PrintedPort, counted: Counted): readonly string[] => {
  if (counted === 'none') return sticky(port)
  return [counted === 'all' ? figures(port) : `by the relay: ${figures(port)}`]
}

const ranges = (cidrs: readonly string[]): string =>
  cidrs.length === 0
    ? 'load-balancer IPs: open to no client, since all source ranges are of the other IP family'
    : `load-balancer IPs: for clients from ${visible(cidrs.join(', '))} only`

/** In words; '' when it is not paused. */
const pausedText = ({ paused, held }: PrintedPort, now: number): string => {
  if (paused === null) return ''
  return `paused for ${timesText(paused, 'it is resumed', now)}; ${clientsWait(held ?? 0)}`
}

const timesText = (
  { since, until }: NonNullable<PrintedPort['paused']>,
  end: string,
  now: number,
): string => {
  const rest = until && `for another ${forPeople(Date.parse(until) - now)}`
  return `${forPeople(now - Date.parse(since))} (since ${since}), ${rest ?? `until ${end}`}`
}

/** With more of them a ServicePort's line at the end has their number. */
const mostDrains = 3

/** What operators have ordered for its endpoints, a line each. */
const drainTexts = ({ endpoints }: PrintedPort, now: number): readonly string[] => {
  const lines = endpoints.flatMap(({ endpoint, drained, active }) => {
    if (drained === null) return []
    const times = timesText(drained, 'it is undrained', now)
    return [`${endpoint} drained for ${times}; ${active ?? 0} still open`]
  })
  if (lines.length <= mostDrains) return lines
  return [`${lines.length} of ${count(endpoints.length, 'endpoint')} are drained`]
}

/** What clients of a ServicePort without a usable endpoint get; '' when it has some. */
const unserved = (port: PrintedPort): string => {
  const { endpoints, verdicts, paused, holdMs } = port
  if (paused !== null) return ''
  if (endpoints.some(one => one.eligible && one.drained === null)) {
    return endpoints.some(isUsable)
      ? ''
      : '-> no endpoint is up: those that are down are tried all the same'
  }
  const clients =
    holdMs > 0 ? `clients wait for up to ${forPeople(holdMs)}` : 'clients are refused'
  if (endpoints.length === 0) return `-> no endpoints: ${clients}`
  return verdicts.internal === 'drop' || verdicts.external === 'drop'
    ? '-> no usable endpoint on this node: clients are not served'
    : `-> no usable endpoint: ${clients}`
}

/** What was chosen and how, and what was not taken. */
const choiceRows = (
  what: string,
  { name, passedOver }: Pick<ChoiceStatus, 'name' | 'passedOver'>,
  how: readonly string[],
): Cells[] => {
  const text = how.filter(Boolean).join('; ')
  return [
    [what, text === '' ? name : `${name} (${text})`],
    ...passedOver.map((one): Cells => ['', `not ${one.name}: ${one.detail}`]),
  ]
}

const modeRows = ({ mode: name, modeChoice }: Printed): Cells[] => {
  if (modeChoice === null) return []
  const { askedBy, detail, passedOver } = modeChoice
  const by = askedBy === '' ? '' : `by ${askedBy}`
  return choiceRows('mode', { name, passedOver }, [by, detail])
}

const captureRows = ({ capture }: Printed): Cells[] =>
  capture === null ? [] : choiceRows('capture', capture, [capture.detail])

const relayRows = ({ relay }: Printed): Cells[] => {
  if (relay === null) return []
  const { name, detail, workers, ownProcess } = relay
  const how = [
    name === 'portable' ? '' : count(workers, 'worker'),
    ownProcess === null ? '' : processText(ownProcess),
    detail,
  ]
  const { excess = '' } = ownProcess ?? {}
  const [chosen = [], ...others] = choiceRows('relay', relay, how)
  const warning: Cells = ['', red(`more privileges than it needs: ${excess}`)]
  return [chosen, ...(excess === '' ? [] : [warning]), ...others]
}

const connectTimeRows = ({ connectTime }: Printed): Cells[] => {
  if (connectTime === null) return []
  const { state, detail, clients, left } = connectTime
  const whom = clients === 'host' ? 'processes of the node, not of its pods' : ''
  const room = left === 0 ? '' : `no room for ${count(left, 'ServicePort')}`
  const how = [whom, detail, room].filter(Boolean).join('; ')
  const text = how === '' ? state : `${state} (${how})`
  return [['connect', state === 'leading' || state === 'waiting' ? text : red(text)]]
}

const processText = ({
  privileges,
}: NonNullable<NonNullable<Printed['relay']>['ownProcess']>): string =>
  privileges === '' ? 'a process of its own' : `a process of its own: ${privileges}`

const nodeRow = (node: Printed['node']): Cells[] => {
  if (node === null) return []
  const name = node.zone === '' ? node.name : `${node.name}, zone ${node.zone}`
  const row: Cells = ['node', name]
  return node.notEligible === '' ? [row] : [row, ['', red(node.notEligible)]]
}

export const overallOf = (document: StatusOf<unknown>): Overall => ({
  draining: document.draining,
  unhealthy: document.healthy
    ? []
    : document.unhealthy.length > 0
      ? document.unhealthy
      : ['no reason given'],
  source: document.source,
  problemCount: document.problems.length,
})

const healthCell = (document: Printed): Cell => {
  const { parts, severity } = headlineOf(overallOf(document), document.servicePorts)
  if (severity === 0) return { text: 'ok', style: 'green' }
  const style = severityStyle(severity)
  return { text: parts.join(', '), ...(style && { style }) }
}

/** `key   value` lines at the top. */
const header = (document: Printed, now: number, colour: boolean): string[] => {
  const { node, source, fds } = document
  const up = forPeople(now - Date.parse(document.startedAt))
  const read =
    source.lastGoodAt === undefined
      ? 'not read yet'
      : `last read ${forPeople(now - source.lastGoodAt)} ago`
  const rows: Cells[] = [
    [
      'usher',
      `${document.version}, ${document.mode}, up ${up} (since ${document.startedAt})`,
    ],
    ...(document.tookOver ? [['', tookOverText(document.tookOver)] as Cells] : []),
    ['health', healthCell(document)],
    ...nodeRow(node),
    ['source', `${source.name}, ${source.synced ? read : `not synced, ${read}`}`],
  ]
  if (source.error !== '') rows.push(['', red(source.error)])
  rows.push(
    ...modeRows(document),
    ...connectTimeRows(document),
    ...captureRows(document),
    ...relayRows(document),
  )
  if (hasRelay(document))
    rows.push([
      'files',
      `the relay holds ${count(fds.used, 'descriptor')} and may hold ${fds.limit}`,
    ])
  if (document.acceptPaused)
    rows.push(['', red('no new connections are accepted until some are free')])
  if (document.draining)
    rows.push([
      'ending',
      { text: 'waiting for open connections to finish', style: 'yellow' },
    ])
  return rows.map(row => aligned(row, [7], '', colour))
}

const footer = (document: Printed, now: number, colour: boolean): string[] => {
  const { servicePorts, problems } = document
  const active = servicePorts.reduce((sum, port) => sum + (port.active ?? 0), 0)
  const lines = problems.map(({ object, field, message }) =>
    styled(
      `problem: ${visible(`${object}${field === '' ? '' : ` ${field}`}: ${message}`)}`,
      'red',
      colour,
    ),
  )
  for (const port of servicePorts) {
    const text = pausedText(port, now) || waitingText(port)
    for (const one of [text, ...drainTexts(port, now)].filter(Boolean))
      lines.push(styled(visible(`${port.servicePort}: ${one}`), 'yellow', colour))
  }
  const areRoutes = servicePorts.some(port => !isOfService(port))
  const totals = [
    count(servicePorts.length, areRoutes ? 'route' : 'ServicePort'),
    ...statesTexts(countStates(servicePorts)),
    ...(hasRelay(document) ? [`${active} active`] : []),
    count(problems.length, 'problem'),
  ]
  return ['', ...lines, visible(totals.join(', '))]
}

/** `8 ok`, `1 failing`, ... */
const statesTexts = (states: StateCounts): readonly string[] =>
  (Object.keys(serviceStates) as ServiceState[]).flatMap(state => {
    const number = states.get(state) ?? 0
    return number === 0 ? [] : [`${number} ${state}`]
  })

/**
 * The status as text for people, in pieces of a few lines: trouble is in the header and
 * at the end, where it is seen without scrolling. `now` is epoch milliseconds; `shown`: those with lines of their own.
 */
export function* statusText(
  document: Printed,
  now: number,
  colour: boolean,
  shown: readonly PrintedPort[] = document.servicePorts,
): Generator<string> {
  const all = shown.map((port): PortRows => {
    const counted = countedOf(document, port)
    return {
      port,
      counted,
      vips: port.vips.map(vip => vipRow(vip, port)),
      endpoints: port.endpoints.map(one => ({
        cells: endpointRow(one, counted !== 'none', now),
        alike: one.alike?.map(visible) ?? [],
      })),
    }
  })
  const widths = {
    vips: columnWidths(all.flatMap(({ vips }) => vips)),
    endpoints: columnWidths(all.flatMap(({ endpoints }) => endpoints.flatMap(cellsOf))),
  }
  yield `${header(document, now, colour).join('\n')}\n`
  for (const rows of all) yield `${portLines(rows, widths, now, colour).join('\n')}\n`
  const isShown = new Set(shown)
  const left = document.servicePorts.filter(port => !isShown.has(port))
  if (left.length > 0)
    yield `\n${count(left.length, 'ServicePort')} more (${statesTexts(countStates(left)).join(', ')}): usher status NAME, or usher status --all\n`
  yield `${footer(document, now, colour).join('\n')}\n`
}

interface PortRows {
  readonly port: PrintedPort
  readonly counted: Counted
  readonly vips: readonly Cells[]
  readonly endpoints: readonly EndpointRow[]
}

type PortWidths = Readonly<Record<'vips' | 'endpoints', readonly number[]>>

/** `down: 10.0.0.1:80 not ready`; '' where an older Usher does not say. */
const stateText = ({ state, reason }: PrintedPort, colour: boolean): string => {
  if (state === undefined) return ''
  const text = [state, reason].filter(Boolean).join(': ')
  return styled(visible(text), severityStyle(serviceStates[state]), colour)
}

const portLines = (
  { port, counted, vips, endpoints }: PortRows,
  widths: PortWidths,
  now: number,
  colour: boolean,
): readonly string[] => {
  // A route may have addresses of both.
  const family = port.vips[0]?.kind === 'Route' ? '' : ` ${port.family}`
  const title = visible(`${port.servicePort} ${port.protocol}${family}`)
  const lines = [
    '',
    [styled(title, 'bold', colour), stateText(port, colour)].filter(Boolean).join('  '),
    ...trafficTexts(port, counted).map(text => `  ${visible(text)}`),
    ...optionsText(port).map(text => `  ${text}`),
    ...(port.sourceRanges === null ? [] : [`  ${ranges(port.sourceRanges)}`]),
    ...vips.map(row => aligned(row, widths.vips, '  ', colour)),
    ...endpoints.map(row => endpointText(row, widths.endpoints, colour)),
  ]
  const paused = pausedText(port, now)
  if (paused !== '') lines.push(`  ${styled(visible(paused), 'yellow', colour)}`)
  const none = unserved(port)
  if (none !== '') lines.push(`  ${styled(none, 'yellow', colour)}`)
  if (port.lastError !== '')
    lines.push(`  ${styled(`last error: ${visible(port.lastError)}`, 'red', colour)}`)
  return lines
}

const red = (text: string): Cell => ({ text, style: 'red' })
const yellow = (text: string): Cell => ({ text, style: 'yellow' })

/** What a Local policy leaves of a VIP's clients; '' when it serves all of them. */
const limitOf = ({ kind }: VipStatus, { verdicts }: PrintedPort): string => {
  if (kind === 'ClusterIP' || kind === 'Route')
    return verdicts.internal === 'drop'
      ? 'serves no client: policy Local, no endpoint on this node'
      : ''
  if (verdicts.external !== 'drop') return ''
  const who = verdicts.node === 'forward' ? 'only clients on this node' : 'no client'
  return `serves ${who}: policy Local, no endpoint on this node`
}

const vipRow = (vip: VipStatus, port: PrintedPort): Cells => {
  const how = servedText(vip)
  const state = vip.reason === '' ? vip.state : `${vip.state}: ${vip.reason}`
  const bad = vip.state === 'failed' || vip.state === 'not captured'
  const limit = limitOf(vip, port)
  if (bad) return [vip.kind, vip.vip, how, red(state)]
  const text = limit === '' ? state : yellow(`${state}; ${limit}`)
  return [vip.kind, vip.vip, how, text]
}

/** `internal` clients are those of ClusterIPs; see `EndpointRun`. */
const clientNames: ReadonlyMap<string, string> = new Map([
  ['internal', 'ClusterIP clients'],
  ['external', 'clients from outside'],
  ['node', 'clients on this node'],
])

const usage = (endpoint: EndpointRun): string | Cell => {
  const { state, eligible, clients, coolingDown, check, drained } = endpoint
  if (drained !== null) return yellow('drained by order')
  if (check?.up === false) {
    const found = check.since === null ? 'not checked yet' : 'down'
    return yellow(`${found}, ${eligible ? triedAllTheSame : 'unused'}`)
  }
  if (!eligible)
    return yellow(
      state === 'ready' ? `${state}, unused by policy or hints` : `${state}, unused`,
    )
  const who = clients
    .split('+')
    .map(name => clientNames.get(name) ?? name)
    .join(' and ')
  const text = clients === 'all' ? state : `${state} for ${who}`
  return coolingDown
    ? yellow(`cooling down after a failure${text === 'ready' ? '' : `, ${text}`}`)
    : text
}

/** What its check says, when there is something to say. */
const checkText = ({ check }: EndpointRun, now: number): string[] => {
  if (check === null) return []
  const { up, since, why } = check
  if (up) return why === '' ? [] : [`check: ${why}`]
  const down = since === null ? [] : [`down for ${forPeople(now - Date.parse(since))}`]
  return [[...down, why].filter(part => part !== '').join(': ')]
}

interface EndpointRow {
  readonly cells: Cells
  /** Names of others, fit to be shown, whose cells are the same but for the second one. */
  readonly alike: readonly string[]
}

/** As much as decides how wide columns are. */
const cellsOf = ({ cells, alike }: EndpointRow): readonly Cells[] =>
  alike.length === 0 ? [cells] : [cells, ['->', alike.reduce(longer)]]

const longer = (a: string, b: string): string => (b.length > a.length ? b : a)

/** A line of each. Most of 100 000 are alike: what follows the name is made once. */
const endpointText = (
  { cells, alike }: EndpointRow,
  widths: readonly number[],
  colour: boolean,
): string => {
  let text = aligned(cells, widths, '  ', colour)
  if (alike.length === 0) return text
  const [arrow = '', , ...rest] = cells
  const [first = 0, width = 0, ...others] = widths
  const start = `\n${aligned([arrow], [first], '  ', colour)}  `
  const end = aligned(rest, others, '  ', colour)
  for (const name of alike) text += start + name.padEnd(width) + end
  return text
}

/** `counted`: there are figures of what went there. `now` is epoch milliseconds. */
const endpointRow = (endpoint: EndpointRun, counted: boolean, now: number): Cells => {
  const { active, failures, check, weight, weightSince } = endpoint
  const host = check === null || check.host === '' ? '' : ` (${check.host})`
  return [
    '->',
    `${endpoint.endpoint}${host}`,
    usage(endpoint),
    ...(counted
      ? [
          `${active ?? 0} active`,
          failures ? red(count(failures, 'failure')) : '0 failures',
        ]
      : []),
    ...(weightSince === null ? [] : [yellow(`weight ${weight} by order`)]),
    ...checkText(endpoint, now),
  ]
}
