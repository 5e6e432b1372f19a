import { readyEndpoint } from '../model/service.ts'
import type { Endpoint, ServicePort, Target, Vip } from '../model/snapshot.ts'
import { type AddressPort, ipFamilies, type IpFamily } from '../util/ip.ts'

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

export const unusableReasons = (probes: FamilyProbes): ReadonlyMap<IpFamily, string> =>
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

/** All that a ServicePort can need: of policy Local, with affinity, refused. */
export const sampleServicePorts = (
  family: IpFamily,
  address: string,
): readonly ServicePort[] => {
  const endpoints = [1, 2].map(port => endpointElsewhere({ address, port }))
  const plain: ServicePort = {
    ...probedServicePort(family, 'plain', endpoints),
    vips: vipsAt(address, 1),
    externalTrafficPolicy: 'Local',
    sourceRanges: [address],
  }
  const refused: Target = { verdict: 'reject', endpoints: [] }
  return [
    plain,
    { ...plain, key: 'sctp', protocol: 'SCTP' },
    { ...plain, key: 'sticky', portName: 'sticky', protocol: 'UDP', affinityMs: 1000 },
    {
      ...plain,
      key: 'refused',
      vips: vipsAt(address, 3),
      internal: refused,
      external: { verdict: 'drop', endpoints: [] },
      externalFromNode: refused,
      reachable: [],
    },
  ]
}

/** One of each kind, at this port and the next. */
const vipsAt = (address: string, port: number): readonly Vip[] => [
  { kind: 'ClusterIP', address, port },
  { kind: 'LoadBalancerIP', address, port: port + 1 },
  { kind: 'NodePort', address, port },
]

/** Not on this node, where what goes back to its sender is masqueraded, too. */
export const endpointElsewhere = ({ address, port }: AddressPort): Endpoint => ({
  ...readyEndpoint(address),
  nodeName: 'elsewhere',
  port,
})
