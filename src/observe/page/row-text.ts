import type { VipPlacement } from '../../capture/capture.ts'
import type { ServicePort, Vip } from '../../model/snapshot.ts'
import { endpointState, isUsable, unusedReason } from '../../page/endpoint-words.ts'
import type { RowState, RowText } from '../../page/wire.ts'
import type { ListenerStats } from '../../relay/relay.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { Entry } from '../status-document.ts'
import { endpointStatuses } from '../status-service-port.ts'

type Row = RowText extends readonly [number, ...infer Rest] ? Rest : never

/** Named in a row; of more there is the number. */
const mostVips = 3
const mostNamed = 2

/** What the page says of a ServicePort, but for what is counted. */
export const rowText = (entry: Entry): Row => {
  const [servicePort, vips, listener] = entry
  const { name, protocol, family, endpoints } = servicePort
  const found = endpointsOf(entry)
  const [state, reason] = stateOf(entry, found, vipTrouble(vips, listener))
  return [
    name,
    protocol,
    family,
    vipTexts(servicePort),
    state,
    [reason, found.why].filter(Boolean).join('; '),
    found.usable,
    endpoints.length,
    found.missing,
  ]
}

type Reasoned = readonly [state: RowState, why: string]

const stateOf = (
  [{ endpoints, protocol }, , , orders]: Entry,
  { usable, isFailing }: Found,
  vip: Reasoned | undefined,
): Reasoned => {
  if (vip?.[0] === 'not listening') return vip
  if (protocol === 'TCP' && orders.some(({ kind }) => kind === 'pause'))
    return ['paused', 'by order: new clients wait']
  if (usable === 0) return [endpoints.length === 0 ? 'no endpoints' : 'none usable', '']
  return vip ?? [isFailing ? 'failing' : 'ok', '']
}

/** The worst of its VIPs; undefined when all is well. */
const vipTrouble = (
  vips: readonly VipPlacement[],
  listener: ListenerStats | undefined,
): Reasoned | undefined => {
  for (const bind of listener?.binds ?? [])
    if (bind.state === 'failed')
      return [
        'not listening',
        `${joinHostPort(bind.bind.address, bind.bind.port)}: ${bind.error}`,
      ]
  for (const { vip, capture, reason } of vips)
    if (capture === 'not captured') return ['not captured', `${vipText(vip)}: ${reason}`]
  return listener?.binds.some(({ state }) => state === 'binding')
    ? ['starting', '']
    : undefined
}

interface Found {
  /** How many endpoints are in use; one that rests is, or its row would flicker with each rest. */
  readonly usable: number
  /** How many others should be, by policy and hints. */
  readonly missing: number
  /** Each of them has failed a moment ago. */
  readonly isFailing: boolean
  /** Why others aren't, and which of them rest. */
  readonly why: string
}

/** Whether all its endpoints are in use: there is nothing to say of any. */
export const isPlain = ([{ endpoints, reachable }, , listener, orders]: Entry): boolean =>
  reachable.length === endpoints.length &&
  orders.length === 0 &&
  listener?.endpoints.some(({ coolingDown }) => coolingDown) !== true

/** Looks closer only where an endpoint is missing. */
const endpointsOf = (entry: Entry): Found => {
  const [servicePort, , listener, orders, checkOf] = entry
  const { length: usable } = servicePort.endpoints
  if (isPlain(entry)) return { usable, missing: 0, isFailing: false, why: '' }
  const all = endpointStatuses(servicePort, listener, orders, checkOf)
  const inUse = all.filter(isUsable)
  const unused = all.filter(one => endpointState(one) === 'unused')
  const named = all.filter(one => one.resting || !(isUsable(one) || unused.includes(one)))
  const texts = named
    .slice(0, mostNamed)
    .map(one =>
      [one.endpoint, endpointState(one), unusedReason(one)].filter(Boolean).join(' '),
    )
  const more = named.length - texts.length
  return {
    usable: inUse.length,
    missing: all.length - inUse.length - unused.length,
    isFailing: inUse.length > 0 && inUse.every(({ resting }) => resting),
    why: [
      ...texts,
      ...(more > 0 ? [`${more} more`] : []),
      ...(unused.length > 0 ? [`${unused.length} unused by policy or hints`] : []),
    ].join(', '),
  }
}

const vipTexts = ({ vips }: ServicePort): string => {
  const texts = vips.slice(0, mostVips).map(vipText)
  const more = vips.length - texts.length
  return `${texts.join(' ')}${more > 0 ? ` +${more}` : ''}`
}

/** A node port is on all addresses. */
const vipText = ({ kind, address, port }: Vip): string =>
  kind === 'NodePort' ? `*:${port}` : joinHostPort(address, port)
