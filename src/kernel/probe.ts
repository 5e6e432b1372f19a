import type { Endpoint, ServicePort, Target } from '../model/snapshot.ts'
import { ipFamilies, type IpFamily } from '../util/ip.ts'

/** Whether something works here, found out by really doing it. */
export interface Probe {
  readonly usable: boolean
  /** Why not, naming what is missing; or by what, as in `nft 1.0.6`. */
  readonly detail: string
}

export type FamilyProbes = Readonly<Record<IpFamily, Probe>>

/** One family after the other: their probes use the same tools and locks. */
export const probeFamilies = async (
  probe: (family: IpFamily) => Promise<Probe>,
): Promise<FamilyProbes> => ({ IPv4: await probe('IPv4'), IPv6: await probe('IPv6') })

/** Of what needs nothing that could be missing. */
export const anywhere: FamilyProbes = {
  IPv4: { usable: true, detail: '' },
  IPv6: { usable: true, detail: '' },
}

export const whyUnusable = (probes: FamilyProbes): ReadonlyMap<IpFamily, string> =>
  new Map(
    ipFamilies
      .filter(family => !probes[family].usable)
      .map(family => [family, probes[family].detail]),
  )

/** One answer for both families: what works in one is worth having. */
export const joinProbes = ({ IPv4, IPv6 }: FamilyProbes): Probe => {
  if (IPv4.usable === IPv6.usable) {
    const same = IPv4.detail === IPv6.detail
    const detail = same ? IPv4.detail : `${IPv4.detail}; IPv6: ${IPv6.detail}`
    return { usable: IPv4.usable, detail }
  }
  const detail = IPv4.usable
    ? `${IPv4.detail}; not for IPv6: ${IPv6.detail}`
    : `${IPv6.detail}; not for IPv4: ${IPv4.detail}`
  return { usable: true, detail }
}

/** A plain one for probes to make theirs of: of TCP, without VIPs, all clients get all endpoints. */
export const probedServicePort = (
  family: IpFamily,
  key: string,
  endpoints: readonly Endpoint[],
): ServicePort => {
  const forward: Target = { verdict: 'forward', endpoints }
  return {
    key,
    name: `usher/probe:${key}`,
    namespace: 'usher',
    serviceName: 'probe',
    portName: key,
    protocol: 'TCP',
    family,
    vips: [],
    affinityMs: 0,
    endpoints,
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    internal: forward,
    external: forward,
    externalFromNode: forward,
    reachable: endpoints,
    sourceRanges: undefined,
  }
}
