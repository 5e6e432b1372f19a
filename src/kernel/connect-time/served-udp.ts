import { flowKeepers } from '../../model/service.ts'
import type { ServicePort } from '../../model/snapshot.ts'
import { listDiff } from '../../util/list-diff.ts'
import { familyOf } from '../../util/ip.ts'
import { addressOf } from './addresses.ts'
import { isGuarded } from './compile.ts'

/** By VIP, the endpoints at which its clients may stay; both as in the table `reverse`. */
export type ServedUdp = ReadonlyMap<string, ReadonlySet<string>>

/** What clients are led by. */
export interface Led {
  readonly servicePorts: readonly ServicePort[]
  readonly nodeAddresses: readonly string[]
}

/**
 * All VIPs of UDP by which clients are led. Pure. Whoever was led by another one, or to another
 * endpoint, has no business there any more.
 */
export const servedUdp = ({ servicePorts, nodeAddresses }: Led): ServedUdp => {
  const served = new Map<string, ReadonlySet<string>>()
  const nodePorts = new Map<string, ReadonlySet<string>>()
  for (const one of servicePorts) {
    if (one.protocol !== 'UDP') continue
    const keepers = flowKeepers(one.endpoints)
    const stay = new Set(
      keepers.map(({ address, port }) => addressOf(address, port, 'UDP')),
    )
    for (const vip of one.vips.filter(each => !isGuarded(each, one)))
      if (vip.kind !== 'NodePort')
        served.set(addressOf(vip.address, vip.port, 'UDP'), stay)
      else
        for (const each of nodeAddresses.filter(node => familyOf(node) === one.family))
          nodePorts.set(addressOf(each, vip.port, 'UDP'), stay)
  }
  // VIPs on addresses of the node go before node ports.
  return new Map([...nodePorts, ...served])
}

/**
 * Whether anybody may be where nobody is to stay. Scaling up is not to cost a look at all sockets.
 * What was led before is not known where there is nothing.
 */
export const losesUdp = (before: Led, after: Led): boolean => {
  const lost = before.nodeAddresses.some(each => !after.nodeAddresses.includes(each))
  if (lost || before.servicePorts.length === 0) return true
  const changed = listDiff(before.servicePorts, after.servicePorts)
  const now = servedUdp({ ...after, servicePorts: changed.after })
  const was = servedUdp({ ...before, servicePorts: changed.before })
  return [...was].some(([vip, stay]) => {
    const stays = now.get(vip)
    return stays === undefined || [...stay].some(each => !stays.has(each))
  })
}
