import { familyOf, ipFamilies, joinHostPort, type IpFamily } from '../../src/util/ip.ts'
import type { ServicePortStatus } from '../../src/observe/status.ts'
import {
  isBroken,
  labelOf,
  labels,
  type RawEndpoints,
  type RawService,
  type RawServicePort,
  type RawSlice,
} from './raw.ts'
import {
  chosen,
  entriesOfEndpoints,
  entriesOfSlices,
  livelier,
  stateOf,
  type Entry,
  type Place,
  type Verdict,
} from './oracle-endpoints.ts'

/** What a server holds that decides what is served. */
export interface Held {
  readonly services: readonly RawService[]
  /** The slices, or, where those are not served, the Endpoints. */
  readonly endpoints: readonly RawSlice[] | readonly RawEndpoints[]
  readonly place: Place
}

/** A ServicePort as it has to be; the words are those of `/status`. */
export interface Wanted {
  /** Of `keyOf`. */
  readonly key: string
  readonly service: string
  readonly protocol: 'TCP' | 'UDP'
  readonly family: IpFamily
  /** All of it that `/status` has to show. */
  readonly view: View
  /** What clients on this host get at each VIP: who may answer; nobody, if it is empty. */
  readonly doors: readonly {
    readonly address: string
    readonly port: number
    readonly answers: readonly string[]
  }[]
}

/** The part of a ServicePort in `/status` that follows from what the server holds. */
export type View = Pick<ServicePortStatus, 'affinityMs' | 'verdicts' | 'sourceRanges'> & {
  readonly vips: readonly string[]
  readonly endpoints: readonly string[]
}

/**
 * What must be served, worked out by the book from raw objects, with nothing of Usher's
 * own in it. Services that are broken, or have a broken slice, are left out: what counts
 * is their last good version, and nobody knows which ones were seen.
 */
export const wanted = (held: Held): Wanted[] =>
  held.services
    .filter(service => isServed(service) && !isUnsettled(service.metadata.name, held))
    .flatMap(service =>
      service.spec.ports.flatMap(port =>
        ipFamilies.flatMap(family => wantedPort(held, service, port, family) ?? []),
      ),
    )

/** Names of the Services of which it is not known how they are served. */
export const isUnsettled = (name: string, { services, endpoints }: Held): boolean =>
  services.some(service => service.metadata.name === name && isBroken(service)) ||
  endpoints.some(
    object =>
      isBroken(object) &&
      (labelOf(object, labels.serviceName) ?? object.metadata.name) === name,
  )

const isServed = (service: RawService): boolean =>
  labelOf(service, labels.proxyName) === undefined &&
  service.spec.type !== 'ExternalName' &&
  (service.spec.clusterIP ?? 'None') !== 'None'

const wantedPort = (
  held: Held,
  service: RawService,
  port: RawServicePort,
  family: IpFamily,
): Wanted | undefined => {
  const { spec, metadata } = service
  const [clusterIP] = ofFamily(spec.clusterIPs ?? [], family)
  if (clusterIP === undefined) return undefined
  const vips = [
    { kind: 'ClusterIP', address: clusterIP },
    ...ofFamily(spec.externalIPs ?? [], family).map(address => ({
      kind: 'ExternalIP',
      address,
    })),
    ...ofFamily(balancerIPs(service), family).map(address => ({
      kind: 'LoadBalancerIP',
      address,
    })),
  ]
  const entries = entriesOf(held, metadata.name, port, family)
  const targets = targetsOf(entries, service, held.place, vips.length > 1)
  const shown = vips.length > 1 ? targets : { internal: targets.internal }
  const ranges = (spec.loadBalancerSourceRanges ?? []).filter(
    range => familyOf(range.split('/')[0] ?? '') === family,
  )
  const name = port.name === undefined ? '' : `:${port.name}`
  return {
    key: keyOf({
      servicePort: `default/${metadata.name}${name}`,
      protocol: port.protocol,
      family,
    }),
    service: metadata.name,
    protocol: port.protocol,
    family,
    view: {
      affinityMs: affinityMs(spec),
      verdicts: {
        internal: targets.internal.verdict,
        external: targets.external.verdict,
        node: targets.node.verdict,
      },
      sourceRanges: spec.loadBalancerSourceRanges === undefined ? null : ranges,
      vips: vips
        .map(({ kind, address }) => `${kind} ${joinHostPort(address, port.port)}`)
        .toSorted(),
      endpoints: entries.map(entry => line(entry, shown)).toSorted(),
    },
    doors: vips.map(({ kind, address }) => ({
      address,
      port: port.port,
      // The ranges never hold 127.0.0.1, from where all clients of the fault run come.
      answers:
        kind === 'ClusterIP'
          ? targets.internal.names
          : kind === 'LoadBalancerIP' && spec.loadBalancerSourceRanges !== undefined
            ? []
            : targets.node.names,
    })),
  }
}

/** As `line` of the comparison writes what `/status` says. */
const line = (entry: Entry, targets: Readonly<Record<string, Target>>): string => {
  const all = Object.entries(targets)
  const who = all.filter(([, { names }]) => names.includes(entry.name))
  const clients =
    who.length === all.length ? 'all' : who.map(([name]) => name).join('+') || 'none'
  return `${entry.name} ${stateOf(entry)} ${clients}`
}

interface Target {
  readonly verdict: Verdict
  readonly names: readonly string[]
}

const targetsOf = (
  entries: readonly Entry[],
  { spec }: RawService,
  place: Place,
  outside: boolean,
): Record<'internal' | 'external' | 'node', Target> => {
  const cluster = chosen(entries, 'Cluster', place)
  const internal = chosen(entries, spec.internalTrafficPolicy ?? 'Cluster', place)
  if (!outside) return { internal, external: internal, node: internal }
  const external = chosen(entries, spec.externalTrafficPolicy ?? 'Cluster', place)
  return { internal, external, node: cluster }
}

const entriesOf = (
  { endpoints }: Held,
  service: string,
  port: RawServicePort,
  family: IpFamily,
): Entry[] => {
  const merged = new Map<string, Entry>()
  for (const entry of [
    ...entriesOfSlices(endpoints, service, port, family),
    ...entriesOfEndpoints(endpoints, service, port, family),
  ]) {
    const rival = merged.get(entry.name)
    if (rival === undefined || livelier(entry, rival)) merged.set(entry.name, entry)
  }
  return [...merged.values()]
}

const balancerIPs = ({ spec, status }: RawService): string[] =>
  spec.type === 'LoadBalancer'
    ? (status.loadBalancer.ingress ?? []).flatMap(({ ip, ipMode = 'VIP' }) =>
        ipMode === 'VIP' ? [ip] : [],
      )
    : []

const affinityMs = (spec: RawService['spec']): number =>
  spec.sessionAffinity === 'ClientIP'
    ? (spec.sessionAffinityConfig?.clientIP.timeoutSeconds ?? 10_800) * 1000
    : 0

const ofFamily = (addresses: readonly string[], family: IpFamily): string[] =>
  addresses.filter(address => familyOf(address) === family)

/** What tells ServicePorts apart. */
export const keyOf = ({
  servicePort,
  protocol,
  family,
}: Pick<ServicePortStatus, 'servicePort' | 'protocol' | 'family'>): string =>
  `${servicePort} ${protocol} ${family}`
