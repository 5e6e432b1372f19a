import { listOfServicePorts } from '../../model/service-port-list.ts'
import { flowKeepers } from '../../model/service.ts'
import type { ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import { asCidr } from '../../util/cidr.ts'
import { isWildcard } from '../../util/ip.ts'
import { listDiff } from '../../util/list-diff.ts'
import type { FlowVip } from '../conntrack.ts'
import type { KernelSettings } from '../proxier.ts'

/**
 * Which VIPs of a family may have flows that go where they should not any more. The kernel
 * remembers by itself where a flow goes; rules count for new ones only, and a DNS client's flow
 * never ends.
 */
export class FlowChanges {
  #applied: readonly ServicePort[] = []

  /**
   * Called after a snapshot was applied with these settings. Gives the VIPs of ServicePorts that are
   * not the same objects as the last time, each with where their flows may stay, and those that are
   * gone. Of TCP those only that have come. `all`: those that stay too, as rules were missing
   * meanwhile. `left`: those of UDP that an earlier process had.
   */
  take(
    snapshot: Snapshot,
    all: boolean,
    left: readonly FlowVip[],
    settings: KernelSettings,
  ): readonly FlowVip[] {
    const now = listOfServicePorts(snapshot)
    const { before, after } = listDiff(this.#applied, now)
    this.#applied = now
    // What lies in both lists has only moved.
    const old = new Set(before)
    const had = new Map([
      ...left.map(one => [keyOf(one), one] as const),
      ...vipsOf(before, settings),
    ])
    const fresh = all ? now : after.filter(one => !old.has(one))
    const vips = vipsOf(fresh, settings)
    const have = all ? vips : vipsOf(after, settings)
    for (const [key, { protocol }] of vips)
      if (protocol === 'TCP' && !all && had.has(key)) vips.delete(key)
    for (const [key, vip] of had)
      if (vip.protocol === 'UDP' && !have.has(key)) vips.set(key, { ...vip, to: [] })
    // What an earlier process led there by other rules goes, too.
    for (const key of left.map(keyOf)) {
      const { onlyRelayed: _given, ...vip } = vips.get(key) ?? {}
      if ('port' in vip) vips.set(key, vip)
    }
    return [...vips.values()]
  }
}

const vipsOf = (
  servicePorts: readonly ServicePort[],
  settings: KernelSettings,
): Map<string, FlowVip> => {
  const found = new Map<string, FlowVip>()
  const inside = clientsInside(settings)
  for (const servicePort of servicePorts) {
    const { protocol, family, vips, steeredTo } = servicePort
    if (protocol === 'SCTP') continue
    const destinations =
      steeredTo === undefined ? toEndpoints(servicePort, inside) : toRelay(servicePort)
    for (const [at, vip] of vips.entries()) {
      const address = isWildcard(vip.address) ? undefined : vip.address
      const { to, clients } = destinations(vip, at)
      const one: FlowVip = {
        family,
        protocol,
        address,
        port: vip.port,
        to,
        clients,
        ...(settings.relay?.serves === 'alone' && { onlyRelayed: true }),
      }
      // One that changes sides has come there: who was about to connect goes the new way.
      const side = protocol === 'TCP' && steeredTo !== undefined ? ' to the relay' : ''
      if (protocol === 'UDP' || to.length > 0) found.set(`${keyOf(one)}${side}`, one)
    }
  }
  return found
}

type Destinations = (
  vip: Vip,
  at: number,
) => Required<Pick<FlowVip, 'clients'>> & { readonly to: NonNullable<FlowVip['to']> }

const toEndpoints = (
  { endpoints, internal, external, sourceRanges }: ServicePort,
  inside: readonly string[] | undefined,
): Destinations => {
  const keepers = flowKeepers(endpoints)
  return ({ kind }) => {
    const isInner = kind === 'ClusterIP'
    // By policy Local.
    const isSilent = (isInner ? internal : external).verdict === 'drop'
    const ranges = kind === 'LoadBalancerIP' ? sourceRanges : undefined
    return {
      to: isInner && isSilent ? [] : keepers,
      clients: (isSilent && inside) || ranges,
    }
  }
}

/** Whose flows go on there, and to which endpoints, is for the relay to say, flow by flow. */
const toRelay =
  ({ internal, external, externalFromNode, steeredTo = [] }: ServicePort): Destinations =>
  ({ kind }, at) => {
    const [all, near] =
      kind === 'ClusterIP' ? [internal, internal] : [external, externalFromNode]
    const isLed = all.verdict === 'forward' || near.verdict === 'forward'
    return { to: isLed ? steeredTo.slice(at, at + 1) : [], clients: undefined }
  }

/** Whom policy Local does not concern: this host and its pods. Undefined where addresses don't tell. */
const clientsInside = ({
  localDetector,
  nodeAddresses,
}: KernelSettings): readonly string[] | undefined => {
  const hosts = nodeAddresses.map(asCidr)
  if (localDetector.by === 'none') return hosts
  return localDetector.by === 'source' ? [...localDetector.cidrs, ...hosts] : undefined
}

const keyOf = ({ protocol, address = '*', port }: FlowVip): string =>
  `${protocol} ${address} ${port}`
