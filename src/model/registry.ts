import { isDeepStrictEqual } from 'node:util'
import { type AddressPort, ipFamilies, type IpFamily, perFamily } from '../util/ip.ts'
import {
  type CheckedEndpoint,
  checkedEndpoints,
  type Judge,
} from './checked-endpoints.ts'
import { ChangeTracker, type CheckedOut, type PendingChanges } from './change-tracker.ts'
import { apiService, type Host, OwnWays } from './own-ways.ts'
import { PublishedMap } from './sorted-map.ts'
import type {
  Change,
  EndpointSlice,
  EndpointSpec,
  Node,
  Service,
  ServiceCIDR,
  SlicePort,
} from './service.ts'
import { healthCheckOf, buildServicePorts, type Here } from './service-ports.ts'
import { serviceProblems, VipClaims } from './claim.ts'
import type {
  Endpoint,
  Problem,
  ServiceHealthCheck,
  ServicePort,
  Snapshot,
  Target,
  Vip,
} from './snapshot.ts'
import { sameTraffic } from './traffic.ts'

export type { CheckedOut, PendingChanges } from './change-tracker.ts'

export interface RegistryOptions {
  /**
   * The Node this runs on: its endpoints are local, its zone counts for hints, and no
   * other Node is looked at. '', the default, when that is unknown; then no endpoint is
   * local, and a policy Local leads nowhere.
   */
  readonly nodeName?: string
  /** False: Services do without their externalIPs. Default true. */
  readonly externalIPs?: boolean
  /**
   * What checks say now of the endpoints of a Service (`namespace/name`) that wants them checked.
   * By default none is down.
   */
  readonly judge?: (service: string) => Judge
  /** Where the source dials its API server; the same list while nothing of it changed. None by default. */
  readonly dials?: () => readonly AddressPort[]
  /** By default without servers of Usher's own, and without an address. */
  readonly host?: Host
  /** Epoch milliseconds; what was triggered before is not measured. Default 0. */
  readonly startedAt?: number
}

/** Services in one step of a rebuild; a step is not interrupted. */
const claimsAtOnce = 64
const builtAtOnce = 256

const always = (): boolean => true

const noneIsDown = () => () => () => ({ isDown: false })

const noDials: readonly never[] = []
const noHost: Host = { servers: () => noDials, has: () => false }

/**
 * Merges Services and EndpointSlices into one snapshot per IP family. The same objects
 * give the same snapshots in whatever order, and however often, they arrived.
 *
 * `apply` only files objects; the first look at a snapshot or at the problems rebuilds
 * the Services that changed since the last one, as far as `rebuild` has not yet. So a
 * burst of changes costs one rebuild.
 */
export class Registry {
  readonly #services = new Map<string, Service>()
  readonly #endpoints = new EndpointStore()
  readonly #claims = new VipClaims()
  readonly #table = new SnapshotTable()
  readonly #problemsOf = new PublishedMap<readonly Problem[]>(isDeepStrictEqual)
  readonly #serviceCIDRs = new Map<string, ServiceCIDR>()
  readonly #otherNodes = new Map<string, readonly string[]>()
  readonly #changes: ChangeTracker
  readonly #externalIPs: boolean
  readonly #judge: (service: string) => Judge
  readonly #dials: () => readonly AddressPort[]
  readonly #host: Host
  readonly #lastKnown = new LastKnownNode()
  readonly #checked = new Map<string, readonly CheckedEndpoint[]>()
  /** Services whose claims are to be decided, and then those to be built. */
  readonly #unclaimed = new Set<string>()
  readonly #unbuilt = new Set<string>()
  #node: Node | undefined
  #here: Here
  #ways = new OwnWays(noDials, [], noHost)
  /** API servers have come or gone. */
  #hasNewWays = true
  #problems: readonly Problem[] = []
  #problemsFrom: readonly unknown[] = []

  constructor(options: RegistryOptions = {}) {
    const { nodeName = '', startedAt = 0, judge = noneIsDown } = options
    this.#externalIPs = options.externalIPs ?? true
    this.#judge = judge
    this.#dials = options.dials ?? (() => noDials)
    this.#host = options.host ?? noHost
    this.#changes = new ChangeTracker(startedAt)
    this.#here = { nodeName, zone: '', addresses: [] }
  }

  /**
   * Takes in a batch as one. Deleting what is not there is no error. True when an endpoint goes, or
   * is not what it was: clients may be led to where nobody answers.
   */
  apply(changes: readonly Change[]): boolean {
    let takesAway = false
    for (const change of changes) {
      switch (change.kind) {
        case 'Service':
          this.#fileService(`${change.namespace}/${change.name}`, change.object)
          break
        case 'EndpointSlice':
          if (this.#fileSlice(`${change.namespace}/${change.name}`, change.object))
            takesAway = true
          break
        case 'Node':
          this.#fileNode(change.name, change.object)
          break
        case 'ServiceCIDR':
          if (change.object === undefined) this.#serviceCIDRs.delete(change.name)
          else this.#serviceCIDRs.set(change.name, change.object)
          break
      }
    }
    return takesAway
  }

  /** Of the Service `namespace/name`, if it is there and has one. */
  uidOf(service: string): string | undefined {
    return this.#services.get(service)?.uid
  }

  /** `judge` says something else of an endpoint of the Service. */
  hasTurned(service: string): void {
    this.#unbuilt.add(service)
  }

  /** By `namespace/name` of a Service, the endpoints that it wants to be checked. */
  checked(): ReadonlyMap<string, readonly CheckedEndpoint[]> {
    this.rebuild()
    return this.#checked
  }

  /**
   * Does a part of what the next look at a snapshot would have to: at least a step, and
   * on for as long as `mayGoOn` says. True when nothing is left.
   */
  rebuild(mayGoOn: () => boolean = always): boolean {
    this.#findWays()
    while (this.#unclaimed.size > 0 || this.#unbuilt.size > 0) {
      if (this.#unclaimed.size > 0) this.#decideClaims()
      else this.#build(mayGoOn)
      if (!mayGoOn()) break
    }
    return this.#unclaimed.size === 0 && this.#unbuilt.size === 0
  }

  /**
   * The state of one family. The same object as the last time when nothing in the family
   * changed, and the same ServicePort objects in it where nothing of theirs did.
   */
  snapshot(family: IpFamily): Snapshot {
    this.rebuild()
    return this.#table.get(family)
  }

  /**
   * What Services ask for and cannot have now, in the order of their names. The same
   * list as the last time when nothing of it changed.
   */
  problems(): readonly Problem[] {
    this.rebuild()
    const current = this.#problemsOf.publish()
    const ofNode = this.#lastKnown.problems
    if (this.#problemsFrom[0] !== current || this.#problemsFrom[1] !== ofNode)
      this.#problems = [...ofNode, ...[...current.values()].flat()]
    this.#problemsFrom = [current, ofNode]
    return this.#problems
  }

  /** This Node, if the source has it. */
  node(): Node | undefined {
    return this.#node
  }

  /** The same with what the source had of it and has no more. */
  lastKnownNode(): Node | undefined {
    return this.#lastKnown.node
  }

  /** Addresses of Nodes that are not this one, as far as the source has them, with their names. */
  otherNodes(): ReadonlyMap<string, string> {
    const all = [...this.#otherNodes]
    return new Map(all.flatMap(([name, own]) => own.map(each => [each, name] as const)))
  }

  /** Where the cluster takes ClusterIPs from: canonical, sorted, each once. */
  serviceCIDRs(): readonly string[] {
    const all = [...this.#serviceCIDRs.values()].flatMap(({ cidrs }) => cidrs)
    return [...new Set(all)].toSorted()
  }

  hasClusterIP(address: string): boolean {
    return [...this.#services.values()].some(one => one.clusterIPs.includes(address))
  }

  /** Addresses of the API servers' own endpoints. */
  apiServers(): readonly string[] {
    const slices = this.#endpoints.slicesOf(apiService)
    return slices.flatMap(({ endpoints }) => endpoints.map(({ address }) => address))
  }

  /** What came since the last checkout and is not in effect yet. */
  pending(): PendingChanges {
    return this.#changes.pending()
  }

  /** To be called with the snapshots that bring what came since the last time into effect. */
  checkout(): CheckedOut {
    return this.#changes.checkout()
  }

  #fileService(key: string, given: Service | undefined): void {
    const service =
      given === undefined || this.#externalIPs ? given : { ...given, externalIPs: [] }
    const before = this.#services.get(key)
    if (isDeepStrictEqual(before, service)) return
    if (service === undefined) this.#services.delete(key)
    else this.#services.set(key, service)
    this.#changes.service(key, before, service)
    this.#unclaimed.add(key)
  }

  /** Whether an endpoint goes by it. */
  #fileSlice(id: string, slice: EndpointSlice | undefined): boolean {
    const before = this.#endpoints.get(id)
    if (before === slice || (before && slice && sameSlice(before, slice))) return false
    this.#changes.slice(id, slice)
    for (const service of this.#endpoints.set(id, slice)) {
      this.#unbuilt.add(service)
      if (service === apiService) this.#hasNewWays = true
    }
    return before !== undefined && losesAny(before, slice)
  }

  #findWays(): void {
    const dials = this.#dials()
    if (!this.#hasNewWays && !this.#ways.isStale(dials)) return
    this.#hasNewWays = false
    const before = this.#ways
    this.#ways = new OwnWays(dials, this.#endpoints.slicesOf(apiService), this.#host)
    for (const [key, service] of this.#services)
      if (before.concern(service) || this.#ways.concern(service)) this.#unbuilt.add(key)
  }

  #fileNode(name: string, node: Node | undefined): void {
    const { nodeName, ...before } = this.#here
    if (name !== nodeName) {
      if (node === undefined) this.#otherNodes.delete(name)
      else this.#otherNodes.set(name, node.addresses)
      return
    }
    this.#node = node
    this.#lastKnown.take(node)
    const { zone = '', addresses = [] } = this.#lastKnown.node ?? {}
    this.#here = { nodeName, zone, addresses }
    if (zone !== before.zone) {
      for (const service of this.#endpoints.servicesWith(hasZoneHints)) {
        this.#unbuilt.add(service)
      }
    }
    if (isDeepStrictEqual(addresses, before.addresses)) return
    for (const [key, service] of this.#services)
      if (service.sourceRanges !== undefined || this.#ways.concern(service))
        this.#unbuilt.add(key)
  }

  /** In any order: who has a VIP depends on all that claim it, not on who came first. */
  #decideClaims(): void {
    const changed = new Map<string, Service | undefined>()
    for (const key of this.#unclaimed) {
      changed.set(key, this.#services.get(key))
      this.#unclaimed.delete(key)
      if (changed.size >= claimsAtOnce) break
    }
    for (const key of this.#claims.update(changed)) this.#unbuilt.add(key)
  }

  #build(mayGoOn: () => boolean): void {
    const built: BuiltService[] = []
    const problems = new Map<string, readonly Problem[] | undefined>()
    for (const key of this.#unbuilt) {
      this.#unbuilt.delete(key)
      const found: Problem[] = []
      const service = this.#builtOf(key, found)
      built.push(service)
      this.#fileChecked(service)
      problems.set(key, found.length > 0 ? found : undefined)
      if (built.length >= builtAtOnce || !mayGoOn()) break
    }
    this.#table.replace(built)
    this.#problemsOf.edit(problems)
  }

  #fileChecked({ key, servicePorts }: BuiltService): void {
    const checked = servicePorts.flatMap(checkedEndpoints)
    if (checked.length > 0) this.#checked.set(key, checked)
    else this.#checked.delete(key)
  }

  /** What can't be had is added to `problems`. */
  #builtOf(key: string, problems: Problem[]): BuiltService {
    const service = this.#services.get(key)
    const nothing = { IPv4: undefined, IPv6: undefined }
    if (service === undefined) return { key, servicePorts: [], healthChecks: nothing }
    const won = this.#claims.wonBy(key)
    const slices = this.#endpoints.slicesOf(key)
    const judge = this.#judge(key)
    problems.push(...serviceProblems(service, this.#claims.lostBy(key)))
    const servicePorts = buildServicePorts(
      service,
      won,
      slices,
      this.#here,
      judge,
    ).flatMap(one => this.#ways.without(one, this.#here, problems) ?? [])
    const healthChecks = perFamily(family =>
      healthCheckOf(service, won, servicePorts, family, this.#here.nodeName),
    )
    return { key, servicePorts, healthChecks }
  }
}

/** Whether an endpoint is not in the later slice, or less ready there. */
const losesAny = (before: EndpointSlice, after: EndpointSlice | undefined): boolean => {
  const isElsewhere =
    before.serviceName !== after?.serviceName ||
    !sameList(before.ports, after.ports, sameSlicePort)
  const left = new Map(
    isElsewhere ? [] : after.endpoints.map(one => [one.address, readinessOf(one)]),
  )
  return before.endpoints.some(one => (left.get(one.address) ?? 0) < readinessOf(one))
}

const readinessOf = ({ ready, serving }: EndpointSpec): number =>
  Number(ready) + Number(serving)

const hasZoneHints = ({ endpoints }: EndpointSlice): boolean =>
  endpoints.some(({ zoneHints }) => zoneHints.length > 0)

/**
 * EndpointSlices by the Service whose name they carry. That Service need not exist:
 * endpoints outlive a Service that is deleted and made again.
 */
class EndpointStore {
  readonly #byService = new Map<string, Map<string, EndpointSlice>>()
  /** Which Service a slice was filed under, by `namespace/name` of the slice. */
  readonly #serviceOf = new Map<string, string>()

  /** By `namespace/name` of the slice. */
  get(id: string): EndpointSlice | undefined {
    const service = this.#serviceOf.get(id)
    return service === undefined ? undefined : this.#byService.get(service)?.get(id)
  }

  /** In no order. */
  slicesOf(service: string): readonly EndpointSlice[] {
    return [...(this.#byService.get(service)?.values() ?? [])]
  }

  /** The Services with a slice for which `holds`. */
  servicesWith(holds: (slice: EndpointSlice) => boolean): readonly string[] {
    const found: string[] = []
    for (const [service, slices] of this.#byService) {
      if ([...slices.values()].some(holds)) found.push(service)
    }
    return found
  }

  /**
   * Takes in a slice by its `namespace/name`, or with undefined forgets it. Returns the
   * Services whose endpoints that may change: two when its label moved on.
   */
  set(id: string, slice: EndpointSlice | undefined): readonly string[] {
    const before = this.#serviceOf.get(id)
    const after = slice && `${slice.namespace}/${slice.serviceName}`
    if (before !== undefined && before !== after) this.#remove(before, id)
    if (slice !== undefined && after !== undefined) this.#add(after, id, slice)
    return [before, after].filter(service => service !== undefined)
  }

  #add(service: string, id: string, slice: EndpointSlice): void {
    const slices = this.#byService.get(service) ?? new Map<string, EndpointSlice>()
    this.#byService.set(service, slices.set(id, slice))
    this.#serviceOf.set(id, service)
  }

  #remove(service: string, id: string): void {
    this.#serviceOf.delete(id)
    const slices = this.#byService.get(service)
    slices?.delete(id)
    if (slices?.size === 0) this.#byService.delete(service)
  }
}

/** All that snapshots hold of one Service. */
interface BuiltService {
  /** `namespace/name`. */
  readonly key: string
  readonly servicePorts: readonly ServicePort[]
  readonly healthChecks: Readonly<Record<IpFamily, ServiceHealthCheck | undefined>>
}

/** What is to be under a key; undefined for one that goes. */
type Edits<V> = Map<string, V | undefined>

interface FamilyTable {
  readonly servicePorts: PublishedMap<ServicePort>
  readonly healthChecks: PublishedMap<ServiceHealthCheck>
}

const newTable = (): FamilyTable => ({
  servicePorts: new PublishedMap(sameServicePort),
  healthChecks: new PublishedMap(sameHealthCheck),
})

const emptySnapshot = (family: IpFamily): Snapshot => ({
  family,
  servicePorts: new Map(),
  healthChecks: new Map(),
})

/**
 * The current snapshot of each family. A Service that is built anew and comes out equal
 * leaves the old objects, and the old snapshot, where they are. Maps are in the order of
 * keys, so that each walk over a snapshot has the same order.
 */
class SnapshotTable {
  readonly #tables = perFamily(newTable)
  /** Under which keys of which family each Service has ServicePorts. */
  readonly #portsOf = new Map<string, readonly ServicePort[]>()
  #snapshots: Readonly<Record<IpFamily, Snapshot>> = perFamily(emptySnapshot)

  get(family: IpFamily): Snapshot {
    const table = this.#tables[family]
    const servicePorts = table.servicePorts.publish()
    const healthChecks = table.healthChecks.publish()
    const old = this.#snapshots[family]
    if (old.servicePorts === servicePorts && old.healthChecks === healthChecks) return old
    const snapshot = { family, servicePorts, healthChecks }
    this.#snapshots = { ...this.#snapshots, [family]: snapshot }
    return snapshot
  }

  /** Puts what was built of each Service in the place of what it had. */
  replace(services: Iterable<BuiltService>): void {
    const ports = perFamily((): Edits<ServicePort> => new Map())
    const checks = perFamily((): Edits<ServiceHealthCheck> => new Map())
    for (const { key, servicePorts, healthChecks } of services) {
      for (const old of this.#portsOf.get(key) ?? []) {
        ports[old.family].set(old.key, undefined)
      }
      for (const port of servicePorts) ports[port.family].set(port.key, port)
      if (servicePorts.length > 0) this.#portsOf.set(key, servicePorts)
      else this.#portsOf.delete(key)
      for (const family of ipFamilies) checks[family].set(key, healthChecks[family])
    }
    for (const family of ipFamilies) {
      this.#tables[family].servicePorts.edit(ports[family])
      this.#tables[family].healthChecks.edit(checks[family])
    }
  }
}

/**
 * What is known of the Node this runs on. What the source does not say any more, of a Node that
 * it has no more or of one family's addresses, stays as it was: without it more of the node would be
 * open, and its own pods would count as outsiders. A problem for each, for as long as it lasts.
 */
class LastKnownNode {
  #node: Node | undefined
  #problems: readonly Problem[] = []

  /** As of the last `take`; undefined while there was none. */
  get node(): Node | undefined {
    return this.#node
  }

  get problems(): readonly Problem[] {
    return this.#problems
  }

  /** As the source has it now. */
  take(now: Node | undefined): void {
    const before = this.#node
    const [addresses, goneAddresses] = kept(before?.addresses, now?.addresses)
    const [podCIDRs, goneCIDRs] = kept(before?.podCIDRs, now?.podCIDRs)
    const { name = '' } = before ?? {}
    const found: readonly [field: string, gone: readonly string[]][] =
      now === undefined && before !== undefined
        ? [['', [`its zone ${before.zone || '(none)'}`, ...goneAddresses, ...goneCIDRs]]]
        : [
            ['status.addresses', goneAddresses],
            ['spec.podCIDRs', goneCIDRs],
          ]
    const problems = found.flatMap(([field, gone]) => {
      const message = `is not there any more; the last known values are still used: ${gone.join(', ')}`
      return gone.length === 0 ? [] : { object: `Node ${name}`, field, message }
    })
    // The same list while nothing of it changed.
    if (!isDeepStrictEqual(problems, this.#problems)) this.#problems = problems
    const node = now ?? before
    this.#node = node && { ...node, addresses, podCIDRs }
  }
}

/** With those of before of a family that has none now, and these alone. */
const kept = (
  before: readonly string[] = [],
  now: readonly string[] = [],
): [all: readonly string[], gone: readonly string[]] => {
  const isGone = (one: string) =>
    !now.some(other => other.includes(':') === one.includes(':'))
  const gone = before.filter(isGone)
  return [[...now, ...gone], gone]
}

/** Whether two lists have the same length and, place for place, the same items. */
const sameList = <T>(
  a: readonly T[],
  b: readonly T[],
  same: (a: T, b: T) => boolean,
): boolean => {
  if (a === b) return true
  if (a.length !== b.length) return false
  return a.every((item, index) => {
    const other = b[index]
    return other !== undefined && same(item, other)
  })
}

const sameTexts = (a: readonly string[], b: readonly string[]): boolean =>
  sameList(a, b, Object.is)

/** Whether two ServicePorts of the same key and family say the same. */
const sameServicePort = (a: ServicePort, b: ServicePort): boolean =>
  a.affinityMs === b.affinityMs &&
  sameTraffic(a, b) &&
  isDeepStrictEqual(a.checks, b.checks) &&
  a.relayed === b.relayed &&
  a.internalTrafficPolicy === b.internalTrafficPolicy &&
  a.externalTrafficPolicy === b.externalTrafficPolicy &&
  sameList(a.vips, b.vips, sameVip) &&
  sameTexts(a.sourceRanges ?? allClients, b.sourceRanges ?? allClients) &&
  sameList(a.endpoints, b.endpoints, sameEndpoint) &&
  sameTarget(a.internal, b.internal) &&
  sameTarget(a.external, b.external) &&
  sameTarget(a.externalFromNode, b.externalFromNode)

/** Stands for no ranges at all, where an empty list allows no client. */
const allClients = ['']

const sameVip = (a: Vip, b: Vip): boolean =>
  a.kind === b.kind && a.address === b.address && a.port === b.port

/** Of ServicePorts whose endpoints are the same: then an `ip:port` says it all. */
const sameTarget = (a: Target, b: Target): boolean =>
  a.verdict === b.verdict && sameList(a.endpoints, b.endpoints, samePlace)

const samePlace = (a: Endpoint, b: Endpoint): boolean =>
  a.address === b.address && a.port === b.port

const sameEndpoint = (a: Endpoint, b: Endpoint): boolean =>
  a.port === b.port && a.isDown === b.isDown && sameSpec(a, b)

const sameSpec = (a: EndpointSpec, b: EndpointSpec): boolean =>
  a.address === b.address &&
  a.ready === b.ready &&
  a.serving === b.serving &&
  a.terminating === b.terminating &&
  a.nodeName === b.nodeName &&
  a.zone === b.zone &&
  a.tier === b.tier &&
  a.weight === b.weight &&
  a.cut === b.cut &&
  sameTexts(a.zoneHints, b.zoneHints) &&
  sameTexts(a.nodeHints, b.nodeHints)

const sameSlicePort = (a: SlicePort, b: SlicePort): boolean =>
  a.name === b.name && a.protocol === b.protocol && a.port === b.port

/**
 * Whether two slices put the same endpoints behind the same Service. When that was
 * triggered does not count.
 */
const sameSlice = (a: EndpointSlice, b: EndpointSlice): boolean =>
  a.serviceName === b.serviceName &&
  a.family === b.family &&
  sameList(a.ports, b.ports, sameSlicePort) &&
  sameList(a.endpoints, b.endpoints, sameSpec)

const sameHealthCheck = (a: ServiceHealthCheck, b: ServiceHealthCheck): boolean =>
  a.port === b.port && a.localReady === b.localReady
