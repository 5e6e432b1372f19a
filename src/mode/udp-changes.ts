import type { UdpVip } from '../kernel/conntrack-plan.ts'
import type { UdpChanges } from '../kernel/keeper/rule-keeper.ts'
import { keepsFlows } from '../model/service.ts'
import type { ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { isWildcard } from '../util/ip.ts'
import { listDiff } from '../util/list-diff.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'

/**
 * Of Services: those that are gone are left out, as their flows, like TCP's connections, go on
 * (as in kube-proxy 1.36).
 */
export class ServiceUdpChanges implements UdpChanges<Snapshot> {
  #applied: readonly ServicePort[] = []

  /**
   * VIPs of UDP ServicePorts that are not the same objects as the last time, each with the
   * endpoints that keep their flows. Those of which nothing serves are not among them
   * (as in kube-proxy 1.36): the flows would have nowhere to go, and a lone endpoint that is
   * not ready for a moment would lose the clients who only listen.
   */
  take(snapshot: Snapshot, all: boolean): readonly UdpVip[] {
    const now = listOfServicePorts(snapshot)
    const { before, after } = listDiff(all ? [] : this.#applied, now)
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
