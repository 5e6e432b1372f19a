import type { IpFamily } from '../util/ip.ts'
import { EndpointStore } from './endpoint-store.ts'
import type { Change, Service } from './service.ts'
import { buildServicePorts } from './service-ports.ts'
import { serviceProblems } from './service-problems.ts'
import type { Problem, ServicePort, Snapshot } from './snapshot.ts'
import { SnapshotTable } from './snapshot-table.ts'
import { VipClaims } from './vip-claims.ts'

/**
 * Merges Services and EndpointSlices into one snapshot per IP family. The same objects
 * give the same snapshots in whatever order, and however often, they arrived.
 *
 * `apply` only files objects; the first look at a snapshot or at the problems rebuilds
 * the Services that changed since the last one. So a burst of changes costs one rebuild.
 */
export class Registry {
  readonly #services = new Map<string, Service>()
  readonly #endpoints = new EndpointStore()
  readonly #claims = new VipClaims()
  readonly #table = new SnapshotTable()
  readonly #problemsOf = new Map<string, readonly Problem[]>()
  /** Services to rebuild: because of themselves, or of their slices. */
  readonly #changedServices = new Set<string>()
  readonly #changedEndpoints = new Set<string>()
  #problems: readonly Problem[] = []

  /** Takes in a batch as one. Deleting what is not there is no error. */
  apply(changes: readonly Change[]): void {
    for (const change of changes) {
      switch (change.kind) {
        case 'Service':
          this.#fileService(`${change.namespace}/${change.name}`, change.object)
          break
        case 'EndpointSlice': {
          const { namespace, name, object } = change
          for (const service of this.#endpoints.set(namespace, name, object)) {
            this.#changedEndpoints.add(service)
          }
          break
        }
        case 'Node':
        case 'ServiceCIDR':
          // Nothing in a snapshot depends on Nodes until topology reads zones.
          break
      }
    }
  }

  /**
   * The state of one family. The same object as the last time when nothing in the family
   * changed, and the same ServicePort objects in it where nothing of theirs did.
   */
  snapshot(family: IpFamily): Snapshot {
    this.#rebuild()
    return this.#table.get(family)
  }

  /** What Services ask for and cannot have now, in the order of their names. */
  problems(): readonly Problem[] {
    this.#rebuild()
    return this.#problems
  }

  #fileService(key: string, service: Service | undefined): void {
    if (service === undefined) this.#services.delete(key)
    else this.#services.set(key, service)
    this.#changedServices.add(key)
  }

  #rebuild(): void {
    if (this.#changedServices.size === 0 && this.#changedEndpoints.size === 0) return
    const changed = new Map<string, Service | undefined>()
    for (const key of this.#changedServices) changed.set(key, this.#services.get(key))
    const affected = this.#claims.update(changed)
    const dirty = new Set([...affected, ...this.#changedEndpoints])
    this.#table.replace([...dirty].map(key => [key, this.#portsOf(key)]))
    for (const key of affected) this.#findProblems(key)
    this.#problems = [...this.#problemsOf]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([, problems]) => problems)
    this.#changedServices.clear()
    this.#changedEndpoints.clear()
  }

  #portsOf(key: string): readonly ServicePort[] {
    const service = this.#services.get(key)
    if (service === undefined) return []
    const won = this.#claims.wonBy(key)
    return buildServicePorts(service, won, this.#endpoints.slicesOf(key))
  }

  #findProblems(key: string): void {
    const service = this.#services.get(key)
    const problems = service ? serviceProblems(service, this.#claims.lostBy(key)) : []
    if (problems.length > 0) this.#problemsOf.set(key, problems)
    else this.#problemsOf.delete(key)
  }
}
