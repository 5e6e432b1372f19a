import { joinHostPort } from '../../src/util/ip.ts'
import type { Endpoint } from '../services.ts'
import { awaitServing } from './probe.ts'
import { awaitedOf, readyWithin } from './start-proxy.ts'
import type { Order, RunningTarget, Target } from './target.ts'

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

/** A target that has no process of ours. Rejects when clients are not served there. */
const startNothing = async (
  name: string,
  order: Order,
  addresses: ReadonlyMap<string, Endpoint>,
): Promise<RunningTarget> => {
  const why = await awaitServing(order.client, awaitedOf(order, addresses), {
    within: readyWithin(order),
    ended: order.signal,
  })
  if (why !== '') throw new Error(`${name} ${why}`)
  return {
    addressOf: service => addresses.get(service),
    pids: () => [],
    command: '',
    config: '',
    complaint: () => '',
    stop: async () => undefined,
  }
}

/**
 * A target that runs already, such as a kube-proxy: an HTTP server must answer
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
    unsupportedReason: async () => '',
    start: order => startNothing(name, order, addresses),
  }
}
