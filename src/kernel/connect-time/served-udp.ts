import { keepsFlows } from '../../model/service.ts'
import type { ServicePort } from '../../model/snapshot.ts'
import { listDiff } from '../../util/list-diff.ts'
import { familyOf } from '../../util/ip.ts'
import { addressOf } from './addresses.ts'

/** By VIP, the endpoints at which its clients may stay; both as in the table `reverse`. */
export type ServedUdp = ReadonlyMap<string, ReadonlySet<string>>

/**
 * VIPs of the UDP ServicePorts that `before` has not, or with endpoints that `after` has no more. Pure. As in
 * kube-proxy, those that are gone keep their flows, and so do those of which nothing serves: they
 * are left out. Endpoints that end still serve, as long as they say so.
 */
export const servedUdp = (
  before: readonly ServicePort[],
  after: readonly ServicePort[],
  nodeAddresses: readonly string[],
): ServedUdp => {
  const served = new Map<string, ReadonlySet<string>>()
  const nodePorts = new Map<string, ReadonlySet<string>>()
  const changed = listDiff(before, after)
  // What lies in both lists has only moved.
  const old = new Map(changed.before.map(one => [identity(one), one]))
  for (const one of changed.after) {
    const { protocol, family, vips } = one
    const was = old.get(identity(one))
    if (protocol !== 'UDP' || was === one) continue
    const stay = servingOf(one)
    if (stay.size === 0) continue
    const earlier = was === undefined ? [] : [...servingOf(was)]
    // Nothing is gone; scaling up is not to cost a look at all sockets. Where nothing has served in
    // between, flows are still at what did before.
    if (earlier.length > 0 && earlier.every(each => stay.has(each)) && !gained(one, was))
      continue
    for (const { kind, address, port } of vips)
      if (kind !== 'NodePort') served.set(addressOf(address, port, 'UDP'), stay)
      else
        for (const each of nodeAddresses.filter(node => familyOf(node) === family))
          nodePorts.set(addressOf(each, port, 'UDP'), stay)
  }
  if (nodePorts.size > 0)
    for (const vip of vipsOn(nodeAddresses, after)) nodePorts.delete(vip)
  return new Map([...nodePorts, ...served])
}

const identity = ({ family, key }: ServicePort): string => `${family} ${key}`

/** Whether there are VIPs that may have been another's. */
const gained = ({ vips }: ServicePort, was: ServicePort | undefined): boolean =>
  vips.some(
    ({ address, port }) =>
      was?.vips.some(old => old.address === address && old.port === port) !== true,
  )

const servingOf = ({ endpoints }: ServicePort): ReadonlySet<string> =>
  new Set(
    endpoints
      .filter(keepsFlows)
      .map(({ address, port }) => addressOf(address, port, 'UDP')),
  )

/** They go before node ports. */
const vipsOn = (
  nodeAddresses: readonly string[],
  servicePorts: readonly ServicePort[],
): readonly string[] =>
  servicePorts.flatMap(({ protocol, vips }) =>
    protocol === 'UDP'
      ? vips
          .filter(({ address }) => nodeAddresses.includes(address))
          .map(({ address, port }) => addressOf(address, port, 'UDP'))
      : [],
  )
