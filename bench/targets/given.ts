import { joinHostPort } from '#usher/util/ip'
import type { Endpoint } from '../services.ts'
import { startNothing } from './direct.ts'
import type { Target } from './target.ts'

/**
 * A target that somebody runs already, such as a kube-proxy: an HTTP server must answer
 * there by TCP, an echo by UDP.
 */
export const givenTarget = (
  name: string,
  protocol: 'TCP' | 'UDP',
  { address, port }: Endpoint,
): Target => {
  const service = protocol === 'TCP' ? 'http' : 'udp'
  const addresses = new Map([[service, { address, port }]])
  return {
    name,
    title: `what answers at ${protocol === 'TCP' ? '' : 'udp://'}${joinHostPort(address, port)}`,
    kind: 'given',
    whyNot: async () => '',
    start: order => startNothing(name, order, addresses),
  }
}
