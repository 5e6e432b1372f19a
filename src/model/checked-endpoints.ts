import type { ProxyVersion } from '../util/proxy-header.ts'
import { type CheckEffects, judged, type Verdict } from './service.ts'
import type { Endpoint, ServicePort } from './snapshot.ts'

/** Tells what checks say of endpoints that stand in for each other. */
export type Judge = (
  endpoints: readonly Endpoint[],
  effects: CheckEffects,
) => (endpoint: Endpoint) => Verdict

/** One that is to be checked. */
export interface CheckedEndpoint extends Endpoint {
  /** It expects a header of the PROXY protocol. */
  readonly proxyProtocol?: ProxyVersion
}

/** Those that a ServicePort wants to be checked: all that may get clients, by their slices. */
export const checkedEndpoints = ({
  checks,
  endpoints,
  proxyProtocol,
}: ServicePort): readonly CheckedEndpoint[] => {
  if (checks === undefined) return []
  const checked = endpoints.filter(isChecked)
  return proxyProtocol === undefined
    ? checked
    : checked.map((endpoint): CheckedEndpoint =>
        Object.assign({ proxyProtocol }, endpoint),
      )
}

const isChecked = ({ ready, serving, isDown }: Endpoint): boolean =>
  ready || serving || isDown === true

/** One that is down is as one that is not ready: policies and hints go by that. */
export const judgedEndpoints = (
  listed: readonly Endpoint[],
  effects: CheckEffects,
  judge: Judge,
): readonly Endpoint[] => {
  const checked = new Set(listed.filter(isChecked))
  const verdictOf = judge([...checked], effects)
  return listed.map(endpoint => {
    if (!checked.has(endpoint)) return endpoint
    const verdict = verdictOf(endpoint)
    return { ...judged(endpoint, verdict), ...(verdict.isDown && { isDown: true }) }
  })
}
