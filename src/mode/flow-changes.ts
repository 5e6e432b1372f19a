import type { FlowVip } from '../kernel/conntrack.ts'
import type { FlowChanges } from '../kernel/keeper/rule-keeper.ts'
import { flowKeepers } from '../model/service.ts'
import type { ServicePort, Snapshot } from '../model/snapshot.ts'
import { isWildcard } from '../util/ip.ts'
import { listDiff } from '../util/list-diff.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'

/** Of Services in the kernel. */
export class ServiceFlowChanges implements FlowChanges<Snapshot> {
  #applied: readonly ServicePort[] = []

  /**
   * VIPs of ServicePorts that are not the same objects as the last time, each with the endpoints
   * that keep their flows, and those that are gone. Of TCP those only that have come.
   */
  take(
    snapshot: Snapshot,
    all: boolean,
    left: readonly FlowVip[] = [],
  ): readonly FlowVip[] {
    const now = listOfServicePorts(snapshot)
    const { before, after } = listDiff(this.#applied, now)
    this.#applied = now
    // What lies in both lists has only moved.
    const old = new Set(before)
    const had = new Map([
      ...left.map(one => [keyOf(one), one] as const),
      ...vipsOf(before),
    ])
    const vips = vipsOf(all ? now : after.filter(one => !old.has(one)))
    const have = all ? vips : vipsOf(after)
    for (const [key, { protocol }] of vips)
      if (protocol === 'TCP' && !all && had.has(key)) vips.delete(key)
    for (const [key, vip] of had)
      if (vip.protocol === 'UDP' && !have.has(key)) vips.set(key, { ...vip, to: [] })
    return [...vips.values()]
  }
}

const vipsOf = (servicePorts: readonly ServicePort[]): Map<string, FlowVip> => {
  const found = new Map<string, FlowVip>()
  for (const { protocol, family, vips, endpoints, sourceRanges } of servicePorts) {
    if (protocol === 'SCTP') continue
    const to = flowKeepers(endpoints)
    for (const { kind, address, port } of vips) {
      const clients = kind === 'LoadBalancerIP' ? sourceRanges : undefined
      const known = isWildcard(address) ? undefined : address
      const vip: FlowVip = { family, protocol, address: known, port, to, clients }
      if (protocol === 'UDP' || to.length > 0) found.set(keyOf(vip), vip)
    }
  }
  return found
}

const keyOf = ({ protocol, address = '*', port }: FlowVip): string =>
  `${protocol} ${address} ${port}`
