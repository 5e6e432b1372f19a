import type { UdpVip } from '../kernel/conntrack-plan.ts'
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
   * endpoints that still serve. To be called after the snapshot was applied.
   */
  take(snapshot: Snapshot): readonly UdpVip[] {
    const now = listOfServicePorts(snapshot)
    const { before, after } = listDiff(this.#applied, now)
    this.#applied = now
    // What lies in both lists has only moved.
    const [old, kept] = [new Set(before), new Set(after)]
    const vips = new Map<string, UdpVip>()
    for (const port of before.filter(isUdp))
      if (!kept.has(port)) for (const vip of port.vips) put(vips, port, vip, undefined)
    for (const port of after.filter(isUdp)) {
      if (old.has(port)) continue
      const to = port.endpoints.filter(({ serving }) => serving)
      for (const vip of port.vips) put(vips, port, vip, to)
    }
    return [...vips.values()]
  }

  /** The next `take` gives all VIPs: flows may have gone anywhere meanwhile. */
  forget(): void {
    this.#applied = []
  }
}

const isUdp = ({ protocol }: ServicePort): boolean => protocol === 'UDP'

/** What comes later, of those that are there now, decides. */
const put = (
  vips: Map<string, UdpVip>,
  { family }: ServicePort,
  { address, port }: Vip,
  to: UdpVip['to'],
): void => {
  const known = isWildcard(address) ? undefined : address
  vips.set(`${known ?? '*'} ${port}`, { family, address: known, port, to })
}
