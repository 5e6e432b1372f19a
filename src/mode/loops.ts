import { bindKey } from '../relay/counters.ts'
import type { RelayEndpoint, RelayListener } from '../relay/relay.ts'
import { familyOf, isWildcard, wildcardOf } from '../util/ip.ts'

/** An endpoint that was left out because it leads back to its own listener. */
export interface Loop {
  readonly listener: RelayListener
  readonly endpoint: RelayEndpoint
}

/** Services in a row, each the other's endpoint; nobody has so many in earnest. */
const mostHops = 64

/**
 * Leaves out the endpoints through which a connection or datagram would come back to a
 * listener that it has passed: it would go round until descriptors run out. A Service may
 * have another one's VIP for an endpoint; only what closes a ring goes.
 *
 * `isLocal` says whether an address is this host's, for listeners on a wildcard.
 */
export const withoutLoops = (
  listeners: readonly RelayListener[],
  isLocal: (address: string) => boolean,
): { readonly listeners: readonly RelayListener[]; readonly loops: readonly Loop[] } => {
  const byBind = listenersByBind(listeners)
  const next = ({ protocol }: RelayListener, endpoint: RelayEndpoint) => {
    const exact = byBind.get(`${protocol} ${bindKey(endpoint)}`)
    if (exact !== undefined) return exact
    const wild = byBind.get(`${protocol} ${bindKey(onWildcard(endpoint))}`)
    return wild !== undefined && isLocal(endpoint.address) ? wild : undefined
  }
  const loops: Loop[] = []
  const settled = new Map<RelayListener, RelayListener>()
  const passing = new Set<RelayListener>()
  const settle = (listener: RelayListener): void => {
    passing.add(listener)
    const kept = listener.endpoints.filter(endpoint => {
      const target = next(listener, endpoint)
      if (target === undefined) return true
      const tooFar = passing.size >= mostHops
      if (!passing.has(target) && !settled.has(target) && !tooFar) settle(target)
      if (settled.has(target)) return true
      loops.push({ listener, endpoint })
      return false
    })
    passing.delete(listener)
    const whole = kept.length === listener.endpoints.length
    settled.set(listener, whole ? listener : { ...listener, endpoints: kept })
  }
  for (const listener of listeners) if (!settled.has(listener)) settle(listener)
  return { listeners: listeners.map(one => settled.get(one) ?? one), loops }
}

const listenersByBind = (
  listeners: readonly RelayListener[],
): ReadonlyMap<string, RelayListener> => {
  const byBind = new Map<string, RelayListener>()
  for (const listener of listeners) {
    for (const bind of listener.binds) {
      const key = isWildcard(bind.address) ? bindKey(onWildcard(bind)) : bindKey(bind)
      byBind.set(`${listener.protocol} ${key}`, listener)
    }
  }
  return byBind
}

const onWildcard = ({ address, port }: { address: string; port: number }) => ({
  address: wildcardOf(familyOf(address) ?? 'IPv4'),
  port,
})
