import type { EndpointStatus, ServicePortStatus, VipStatus } from '../observe/status.ts'
import type { Cell, Cells } from './columns.ts'
import { count, forPeople, servedText } from './words.ts'

export const red = (text: string): Cell => ({ text, style: 'red' })
const yellow = (text: string): Cell => ({ text, style: 'yellow' })

/** Routes of a sidecar are of none. */
export const isOfService = ({
  servicePort,
}: Pick<ServicePortStatus, 'servicePort'>): boolean => !servicePort.startsWith('route/')

/** What a Local policy leaves of a VIP's clients; '' when it serves all of them. */
const limitOf = ({ kind }: VipStatus, { verdicts }: ServicePortStatus): string => {
  if (kind === 'ClusterIP' || kind === 'Route')
    return verdicts.internal === 'drop'
      ? 'serves no client: policy Local, no endpoint on this node'
      : ''
  if (verdicts.external !== 'drop') return ''
  const who = verdicts.node === 'forward' ? 'only clients on this node' : 'no client'
  return `serves ${who}: policy Local, no endpoint on this node`
}

export const vipRow = (vip: VipStatus, port: ServicePortStatus): Cells => {
  const how = servedText(vip)
  const state = vip.reason === '' ? vip.state : `${vip.state}: ${vip.reason}`
  const bad = vip.state === 'failed' || vip.state === 'not captured'
  const limit = limitOf(vip, port)
  if (bad) return [vip.kind, vip.vip, how, red(state)]
  const text = limit === '' ? state : yellow(`${state}; ${limit}`)
  return [vip.kind, vip.vip, how, text]
}

/** `internal` clients are those of ClusterIPs; see `EndpointStatus`. */
const clientNames: ReadonlyMap<string, string> = new Map([
  ['internal', 'ClusterIP clients'],
  ['external', 'clients from outside'],
  ['node', 'clients on this node'],
])

const usage = (endpoint: EndpointStatus): string | Cell => {
  const { state, eligible, clients, resting, check, drained } = endpoint
  if (drained !== null) return yellow('drained by order')
  if (check?.up === false) {
    const found = check.since === null ? 'not checked yet' : 'down'
    return yellow(`${found}, ${eligible ? 'tried as all are' : 'unused'}`)
  }
  if (!eligible)
    return yellow(
      state === 'not ready' ? `${state}, unused` : `${state}, unused by policy or hints`,
    )
  const who = clients
    .split('+')
    .map(name => clientNames.get(name) ?? name)
    .join(' and ')
  const text = clients === 'all' ? state : `${state} for ${who}`
  return resting ? yellow(`${text}, resting after a failure`) : text
}

/** What its check says, when there is something to say. */
const checkText = ({ check }: EndpointStatus, now: number): string[] => {
  if (check === null) return []
  const { up, since, why } = check
  if (up) return why === '' ? [] : [`check: ${why}`]
  const down = since === null ? [] : [`down for ${forPeople(now - Date.parse(since))}`]
  return [[...down, why].filter(part => part !== '').join(': ')]
}

/** `counted`: there are figures of what went there. `now` is epoch milliseconds. */
export const endpointRow = (
  endpoint: EndpointStatus,
  counted: boolean,
  now: number,
): Cells => {
  const { active, failures, check, weight, weightSince } = endpoint
  const host = check === null || check.host === '' ? '' : ` (${check.host})`
  return [
    '->',
    `${endpoint.endpoint}${host}`,
    usage(endpoint),
    ...(counted
      ? [
          `${active} active`,
          failures === 0 ? '0 failures' : red(count(failures, 'failure')),
        ]
      : []),
    ...(weightSince === null ? [] : [yellow(`weight ${weight} by order`)]),
    ...checkText(endpoint, now),
  ]
}
