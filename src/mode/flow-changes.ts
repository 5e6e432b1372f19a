import type { FlowVip } from '../kernel/conntrack-plan.ts'
import type { FlowChanges } from '../kernel/keeper/rule-keeper.ts'
import { flowKeepers } from '../model/service.ts'
import type { ServicePort, Snapshot } from '../model/snapshot.ts'
import { isWildcard } from '../util/ip.ts'
import { listDiff } from '../util/list-diff.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'

type Vips = ReadonlyMap<string, FlowVip>

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
    const [have, come] = [
      vipsOf(after),
      vipsOf(all ? now : after.filter(one => !old.has(one))),
    ]
    const changed = [
      ...[...had.values()]
        .filter(vip => vip.protocol === 'UDP' && !have.has(keyOf(vip)))
        .map(gone),
      ...[...come].flatMap(([key, vip]) =>
        vip.protocol === 'UDP' || all || !had.has(key) ? vip : [],
      ),
    ]
    return [...changed, ...beside(changed, now)]
  }
}

const gone = ({ family, protocol, address, port }: FlowVip): FlowVip => ({
  family,
  protocol,
  address,
  port,
})

/** Node ports and other VIPs of the same port: which of the two a flow is of is seen with both only. */
const beside = (
  changed: readonly FlowVip[],
  now: readonly ServicePort[],
): readonly FlowVip[] => {
  const udp = changed.filter(({ protocol }) => protocol === 'UDP')
  if (udp.length === 0) return []
  const keys = new Set(udp.map(keyOf))
  const portsOf = (isNodePort: boolean): ReadonlySet<number> =>
    new Set(
      udp.flatMap(vip => (isNodePort === (vip.address === undefined) ? vip.port : [])),
    )
  const [others, nodePorts] = [portsOf(false), portsOf(true)]
  const all = vipsOf(now.filter(({ protocol }) => protocol === 'UDP'))
  return [...all].flatMap(([key, vip]) =>
    (vip.address === undefined ? others : nodePorts).has(vip.port) && !keys.has(key)
      ? vip
      : [],
  )
}

const vipsOf = (servicePorts: readonly ServicePort[]): Vips => {
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
