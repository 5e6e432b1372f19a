import { isDeepStrictEqual } from 'node:util'
import { type AddressPort, ipFamilies, type IpFamily } from '../util/ip.ts'
import {
  type CheckedEndpoint,
  checkedEndpoints,
  type Judge,
} from './checked-endpoints.ts'
import { ChangeTracker, type CheckedOut, type PendingChanges } from './change-tracker.ts'
import { EndpointStore } from './endpoint-store.ts'
import { LastKnownNode } from './last-known-node.ts'
import { apiService, OwnWays } from './own-ways.ts'
import { PublishedMap } from './published-map.ts'
import { sameSlice } from './same.ts'
import type { Change, EndpointSlice, Node, Service, ServiceCIDR } from './service.ts'
import { healthCheckOf } from './service-health.ts'
import { buildServicePorts, type Here } from './service-ports.ts'
import { serviceProblems } from './service-problems.ts'
import type { Problem, Snapshot } from './snapshot.ts'
import { SnapshotTable, type BuiltService } from './snapshot-table.ts'
import { VipClaims } from './vip-claims.ts'

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
  /** Epoch milliseconds; what was triggered before is not measured. Default 0. */
  readonly startedAt?: number
}

/** Services in one step of a rebuild; a step is not interrupted. */
const claimsAtOnce = 64
const builtAtOnce = 256

const always = (): boolean => true

const noneIsDown = () => () => () => ({ isDown: false })

const noDials: readonly AddressPort[] = []

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
  readonly #otherNodes = new Map<string, string>()
  readonly #changes: ChangeTracker
  readonly #externalIPs: boolean
  readonly #judge: (service: string) => Judge
  readonly #dials: () => readonly AddressPort[]
  readonly #lastKnown = new LastKnownNode()
  readonly #checked = new Map<string, readonly CheckedEndpoint[]>()
  /** Services whose claims are to be decided, and then those to be built. */
  readonly #unclaimed = new Set<string>()
  readonly #unbuilt = new Set<string>()
  #node: Node | undefined
  #here: Here
  #ways = new OwnWays([], [])
  /** From which they are; undefined when they are to be made anew. */
  #waysFrom: readonly AddressPort[] | undefined = noDials
  #problems: readonly Problem[] = []
  #problemsFrom: readonly unknown[] = []

  constructor(options: RegistryOptions = {}) {
    const { nodeName = '', startedAt = 0, judge = noneIsDown } = options
    this.#externalIPs = options.externalIPs ?? true
    this.#judge = judge
    this.#dials = options.dials ?? (() => noDials)
    this.#changes = new ChangeTracker(startedAt)
    this.#here = { nodeName, zone: '', addresses: [] }
  }

  /** Takes in a batch as one. Deleting what is not there is no error. */
  apply(changes: readonly Change[]): void {
    for (const change of changes) {
      switch (change.kind) {
        case 'Service':
          this.#fileService(`${change.namespace}/${change.name}`, change.object)
          break
        case 'EndpointSlice':
          this.#fileSlice(`${change.namespace}/${change.name}`, change.object)
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
    this.#lookForWays()
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
    return this.#otherNodes
  }

  /** Where the cluster takes ClusterIPs from: canonical, sorted, each once. */
  serviceCIDRs(): readonly string[] {
    const all = [...this.#serviceCIDRs.values()].flatMap(({ cidrs }) => cidrs)
    return [...new Set(all)].toSorted()
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

  #fileSlice(id: string, slice: EndpointSlice | undefined): void {
    const before = this.#endpoints.get(id)
    if (before === slice || (before && slice && sameSlice(before, slice))) return
    this.#changes.slice(id, slice)
    for (const service of this.#endpoints.set(id, slice)) {
      this.#unbuilt.add(service)
      if (service === apiService) this.#waysFrom = undefined
    }
  }

  #lookForWays(): void {
    const dials = this.#dials()
    if (dials === this.#waysFrom) return
    this.#waysFrom = dials
    const before = this.#ways
    this.#ways = new OwnWays(dials, this.#endpoints.slicesOf(apiService))
    for (const [key, service] of this.#services)
      if (before.concern(service) || this.#ways.concern(service)) this.#unbuilt.add(key)
  }

  #fileNode(name: string, node: Node | undefined): void {
    const { nodeName, ...before } = this.#here
    if (name !== nodeName) return this.#fileOtherNode(name, node)
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

  #fileOtherNode(name: string, node: Node | undefined): void {
    for (const [address, other] of this.#otherNodes)
      if (other === name) this.#otherNodes.delete(address)
    for (const address of node?.addresses ?? []) this.#otherNodes.set(address, name)
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
    const checkIn = (family: IpFamily) =>
      healthCheckOf(service, won, servicePorts, family, this.#here.nodeName)
    const [IPv4, IPv6] = ipFamilies.map(checkIn)
    return { key, servicePorts, healthChecks: { IPv4, IPv6 } }
  }
}

const hasZoneHints = ({ endpoints }: EndpointSlice): boolean =>
  endpoints.some(({ zoneHints }) => zoneHints.length > 0)
