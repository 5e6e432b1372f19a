import { ipFamilies, type IpFamily } from '../util/ip.ts'
import { PublishedMap } from './published-map.ts'
import { sameHealthCheck, sameServicePort } from './same.ts'
import type { ServiceHealthCheck, ServicePort, Snapshot } from './snapshot.ts'

/** All that snapshots hold of one Service. */
export interface BuiltService {
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
export class SnapshotTable {
  readonly #tables = { IPv4: newTable(), IPv6: newTable() }
  /** Under which keys of which family each Service has ServicePorts. */
  readonly #portsOf = new Map<string, readonly ServicePort[]>()
  #snapshots: Readonly<Record<IpFamily, Snapshot>> = {
    IPv4: emptySnapshot('IPv4'),
    IPv6: emptySnapshot('IPv6'),
  }

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
    const ports: Record<IpFamily, Edits<ServicePort>> = {
      IPv4: new Map(),
      IPv6: new Map(),
    }
    const checks: Record<IpFamily, Edits<ServiceHealthCheck>> = {
      IPv4: new Map(),
      IPv6: new Map(),
    }
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
