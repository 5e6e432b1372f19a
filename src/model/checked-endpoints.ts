import type { ProxyVersion } from '../util/proxy-header.ts'
import { downEndpoint, type OnDown } from './service.ts'
import type { Endpoint, ServicePort } from './snapshot.ts'

/** Tells which are down of endpoints that stand in for each other. */
export type WhoIsDown = (
  endpoints: readonly Endpoint[],
) => (endpoint: Endpoint) => boolean

/** One that is to be checked. */
export interface CheckedEndpoint extends Endpoint {
  /** It expects a header of the PROXY protocol. */
  readonly proxyProtocol?: ProxyVersion
}

/** Those that a ServicePort wants to be checked: all that may get clients, by their slices. */
export const checkedEndpoints = ({
  onDown,
  endpoints,
  proxyProtocol,
}: ServicePort): readonly CheckedEndpoint[] => {
  if (onDown === undefined) return []
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
export const withoutDown = (
  listed: readonly Endpoint[],
  onDown: OnDown,
  whoIsDown: WhoIsDown,
): readonly Endpoint[] => {
  const checked = new Set(listed.filter(isChecked))
  const isDown = whoIsDown([...checked])
  return listed.map(endpoint =>
    checked.has(endpoint) && isDown(endpoint)
      ? { ...downEndpoint(endpoint, onDown), isDown: true }
      : endpoint,
  )
}
