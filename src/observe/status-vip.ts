import type { VipPlacement } from '../capture/capture.ts'
import type { ServicePort } from '../model/snapshot.ts'
import type { Bind, BindState } from '../relay/relay.ts'
import { joinHostPort } from '../util/ip.ts'
import type { VipStatus } from './status.ts'

/** `ip:port`, as people and `EndpointStats.key` write it. */
export const bindText = ({ address, port }: Bind): string => joinHostPort(address, port)

type VipState = Pick<VipStatus, 'state' | 'reason'>

const notApplied: VipState = { state: 'binding', reason: 'not applied yet' }

/** One state for a VIP that may be served by several binds: the worst of them. */
const stateOf = (states: readonly (BindState | undefined)[]): VipState => {
  for (const bound of states)
    if (bound?.state === 'failed')
      return { state: 'failed', reason: whyFailed(bound.error) }
  if (states.every(bound => bound?.state === 'listening'))
    return { state: 'listening', reason: '' }
  if (states.includes(undefined)) return notApplied
  for (const bound of states)
    if (bound?.state === 'closed') return { state: 'refusing', reason: bound.reason }
  return { state: 'binding', reason: '' }
}

/** Whose fault it is; ss(8) shows who that is. */
const whyFailed = (error: string): string =>
  error === 'EADDRINUSE'
    ? `${error}, another program has this port, here or on all addresses`
    : error

export const vipStatus = (
  { vip, capture, binds, reason }: VipPlacement,
  bound: ReadonlyMap<string, BindState>,
): VipStatus => {
  const captured = capture !== 'not captured' && binds.length > 0
  const now: VipState = captured
    ? stateOf(binds.map(bind => bound.get(bindText(bind))))
    : { state: unbound(capture, reason), reason: '' }
  return {
    kind: vip.kind,
    vip: joinHostPort(vip.address, vip.port),
    capture,
    listen: captured ? binds.map(bindText).join(', ') : '',
    state: now.state,
    reason: [now.reason, reason].filter(text => text !== '').join('; '),
  }
}

/** In a kernel mode there is a reason only where clients are refused. */
const unbound = (capture: VipPlacement['capture'], reason: string): VipState['state'] =>
  capture !== 'kernel' ? 'not captured' : reason === '' ? 'forwarding' : 'refusing'

/** A ServicePort that is newer than the last sync. */
export const unplaced = ({ vips }: ServicePort): VipPlacement[] =>
  vips.map(vip => ({
    vip,
    capture: 'not captured',
    binds: [],
    reason: 'not applied yet',
  }))
