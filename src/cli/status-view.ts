import type {
  EndpointStatus,
  ServicePortStatus,
  StatusDocument,
  VipStatus,
} from '../observe/status.ts'
import { aligned, columnWidths, styled, type Cell, type Cells } from './columns.ts'
import { bytesForPeople, count, forPeople, visible } from './words.ts'

const red = (text: string): Cell => ({ text, style: 'red' })

const vipRow = (vip: VipStatus): Cells => {
  const how =
    vip.capture === 'local'
      ? 'on the VIP itself'
      : vip.capture === 'none'
        ? `proxy port ${vip.listen}`
        : 'not captured'
  const state = vip.reason === '' ? vip.state : `${vip.state}: ${vip.reason}`
  const bad = vip.state === 'failed' || vip.state === 'not captured'
  return [vip.kind, vip.vip, how, bad ? red(state) : state]
}

const endpointRow = (endpoint: EndpointStatus): Cells => [
  '->',
  endpoint.endpoint,
  endpoint.eligible
    ? endpoint.state
    : { text: `${endpoint.state}, unused`, style: 'yellow' },
  `${endpoint.active} active`,
  endpoint.failures === 0 ? '0 failures' : red(count(endpoint.failures, 'failure')),
]

const figures = (port: ServicePortStatus): string =>
  [
    `${port.active} active`,
    `${port.accepted} accepted`,
    `${port.failed} failed`,
    ...(port.protocol === 'TCP'
      ? [count(port.retries, 'retry', 'retries')]
      : [count(port.datagrams, 'datagram')]),
    `${bytesForPeople(port.bytesToBackend)} to backends`,
    `${bytesForPeople(port.bytesToClient)} to clients`,
    ...(port.affinityMs > 0 ? [`sticky for ${forPeople(port.affinityMs)}`] : []),
  ].join(', ')

/** `key   value` lines at the top. */
const header = (status: StatusDocument, now: number, colour: boolean): string[] => {
  const { source, fds } = status
  const up = forPeople(now - Date.parse(status.startedAt))
  const read =
    source.lastGoodAt === undefined
      ? 'not read yet'
      : `last read ${forPeople(now - source.lastGoodAt)} ago`
  const rows: Cells[] = [
    ['usher', `${status.version}, ${status.mode}, up ${up} (since ${status.startedAt})`],
    status.healthy
      ? ['health', { text: 'ok', style: 'green' }]
      : ['health', red(`red: ${status.unhealthy.join('; ') || 'no reason given'}`)],
    ['source', `${source.name}, ${source.synced ? read : `not synced, ${read}`}`],
  ]
  if (source.error !== '') rows.push(['', red(source.error)])
  rows.push(['files', `${fds.used} of ${fds.limit} descriptors in use`])
  if (status.acceptPaused)
    rows.push(['', red('no new connections are accepted until some are free')])
  if (status.draining)
    rows.push([
      'ending',
      { text: 'waiting for open connections to finish', style: 'yellow' },
    ])
  return rows.map(row => aligned(row, [6], '', colour))
}

const footer = (status: StatusDocument, colour: boolean): string[] => {
  const { servicePorts, problems } = status
  let active = 0
  let unserved = 0
  for (const port of servicePorts) {
    active += port.active
    if (!port.endpoints.some(endpoint => endpoint.eligible)) unserved++
  }
  const lines = problems.map(({ object, field, message }) =>
    styled(
      `problem: ${visible(`${object}${field === '' ? '' : ` ${field}`}: ${message}`)}`,
      'red',
      colour,
    ),
  )
  const totals = [
    count(servicePorts.length, 'ServicePort'),
    `${unserved} without usable endpoints`,
    `${active} active`,
    count(problems.length, 'problem'),
  ]
  return ['', ...lines, totals.join(', ')]
}

/**
 * The status as text for people, in pieces of a few lines: trouble is in the header and
 * at the end, where it is seen without scrolling. `now` is epoch milliseconds.
 */
export function* statusText(
  status: StatusDocument,
  now: number,
  colour: boolean,
): Generator<string> {
  const { servicePorts } = status
  const vipWidths = columnWidths(servicePorts.flatMap(port => port.vips.map(vipRow)))
  const endpointWidths = columnWidths(
    servicePorts.flatMap(port => port.endpoints.map(endpointRow)),
  )
  yield `${header(status, now, colour).join('\n')}\n`
  for (const port of servicePorts) {
    const title = visible(`${port.servicePort} ${port.protocol} ${port.family}`)
    const lines = [
      '',
      styled(title, 'bold', colour),
      `  ${figures(port)}`,
      ...port.vips.map(vip => aligned(vipRow(vip), vipWidths, '  ', colour)),
      ...port.endpoints.map(endpoint =>
        aligned(endpointRow(endpoint), endpointWidths, '  ', colour),
      ),
    ]
    if (port.endpoints.length === 0)
      lines.push(`  ${styled('-> no endpoints: clients are refused', 'yellow', colour)}`)
    if (port.lastError !== '')
      lines.push(`  ${styled(`last error: ${visible(port.lastError)}`, 'red', colour)}`)
    yield `${lines.join('\n')}\n`
  }
  yield `${footer(status, colour).join('\n')}\n`
}
