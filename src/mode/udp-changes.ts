import type { UdpVip } from '../kernel/conntrack-plan.ts'
import { keepsFlows } from '../model/keeps-flows.ts'
import type { ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { isWildcard } from '../util/ip.ts'
import { listDiff } from '../util/list-diff.ts'
import { listOfServicePorts } from './service-port-list.ts'

/**
 * Which UDP VIPs may have flows that go where they should not any more. The kernel remembers
 * by itself where a flow goes; rules count for new ones only, and a DNS client's flow never
 * ends.
 */
export class UdpChanges {
  #applied: readonly ServicePort[] = []

  /**
   * VIPs of UDP ServicePorts that are not the same objects as the last time, each with the
   * endpoints that keep their flows. Those of which nothing serves, or nothing is left, are not among them
   * (as in kube-proxy 1.36): the flows would have nowhere to go, and a lone endpoint that is
   * not ready for a moment would lose the clients who only listen. To be called after the
   * snapshot was applied.
   */
  take(snapshot: Snapshot): readonly UdpVip[] {
    const now = listOfServicePorts(snapshot)
    const { before, after } = listDiff(this.#applied, now)
    this.#applied = now
    // What lies in both lists has only moved.
    const old = new Set(before)
    const vips = new Map<string, UdpVip>()
    for (const port of after) {
      if (port.protocol !== 'UDP' || old.has(port)) continue
      const to = port.endpoints.filter(keepsFlows)
      if (to.length > 0) for (const vip of port.vips) put(vips, port, vip, to)
    }
    return [...vips.values()]
  }

  /** The next `take` gives all VIPs: flows may have gone anywhere meanwhile. */
  forget(): void {
    this.#applied = []
  }
}

const put = (
  vips: Map<string, UdpVip>,
  { family }: ServicePort,
  { address, port }: Vip,
  to: UdpVip['to'],
): void => {
  const known = isWildcard(address) ? undefined : address
  vips.set(`${known ?? '*'} ${port}`, { family, address: known, port, to })
}
