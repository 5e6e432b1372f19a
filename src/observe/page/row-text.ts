import type { VipPlacement } from '../../capture/capture.ts'
import type { ServicePort, Vip } from '../../model/snapshot.ts'
import { endpointState, isUsable, whyNotUsed } from '../../page/endpoint-words.ts'
import type { RowState, RowText } from '../../page/wire.ts'
import type { ListenerStats } from '../../relay/relay.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { Entry } from '../status-document.ts'
import { endpointStatuses } from '../status-service-port.ts'

type Row = RowText extends readonly [number, ...infer Rest] ? Rest : never

/** Named in a row; of more there is the number. */
const mostVips = 3
const mostMissing = 2

/** What the page says of a ServicePort, but for what is counted. */
export const rowText = (entry: Entry): Row => {
  const [servicePort, vips, listener] = entry
  const { name, protocol, family, endpoints } = servicePort
  const { usable, why } = usableOf(entry)
  const vip = vipTrouble(vips, listener)
  const [state, reason] = stateOf(entry, usable, vip)
  return [
    name,
    protocol,
    family,
    vipTexts(servicePort),
    state,
    [reason, why].filter(Boolean).join('; '),
    usable,
    endpoints.length,
  ]
}

type Reasoned = readonly [state: RowState, why: string]

const stateOf = (
  [{ endpoints, protocol }, , , orders]: Entry,
  usable: number,
  vip: Reasoned | undefined,
): Reasoned => {
  if (vip?.[0] === 'not listening') return vip
  if (protocol === 'TCP' && orders.some(({ kind }) => kind === 'pause'))
    return ['paused', 'by order: new clients wait']
  if (usable === 0) return [endpoints.length === 0 ? 'no endpoints' : 'none usable', '']
  return vip ?? ['ok', '']
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

/** How many endpoints get connections, and why others don't. Looks closer only where some don't. */
const usableOf = ([servicePort, , listener, orders, checkOf]: Entry): {
  readonly usable: number
  readonly why: string
} => {
  const { endpoints, reachable } = servicePort
  const isPlain =
    reachable.length === endpoints.length &&
    orders.length === 0 &&
    listener?.endpoints.some(({ resting }) => resting) !== true
  if (isPlain) return { usable: endpoints.length, why: '' }
  const all = endpointStatuses(servicePort, listener, orders, checkOf)
  const missing = all.filter(one => !isUsable(one) || one.resting)
  const texts = missing
    .slice(0, mostMissing)
    .map(one =>
      [one.endpoint, endpointState(one), whyNotUsed(one)].filter(Boolean).join(' '),
    )
  const more = missing.length - texts.length
  return {
    usable: all.filter(isUsable).length,
    why: [...texts, ...(more > 0 ? [`${more} more`] : [])].join(', '),
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
