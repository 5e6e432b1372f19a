import type { Endpoint } from '../services.ts'
import { hostPort, startNothing } from './proxy.ts'
import type { Target } from './target.ts'

/** No proxy: what the client, one backend and the kernel reach by themselves. */
export const direct: Target = {
  name: 'direct',
  title: 'no proxy: the client dials a backend',
  kind: 'direct',
  unsupportedReason: async () => '',
  start: order => {
    const firsts = order.services.flatMap(({ name, endpoints: [first] }) =>
      first === undefined ? [] : [[name, first] as const],
    )
    return startNothing('direct', order, new Map(firsts))
  },
}

/**
 * A target that runs already, such as a kube-proxy: an HTTP server must answer
 * there by TCP, an echo by UDP.
 */
export const givenTarget = (
  name: string,
  protocol: 'TCP' | 'UDP',
  at: Endpoint,
): Target => {
  const addresses = new Map([[protocol === 'TCP' ? 'http' : 'udp', at]])
  return {
    name,
    title: `what answers at ${protocol === 'TCP' ? '' : 'udp://'}${hostPort(at)}`,
    kind: 'given',
    unsupportedReason: async () => '',
    start: order => startNothing(name, order, addresses),
  }
}
