import { ipFamilies, type IpFamily } from '../util/ip.ts'
import { sameServicePort } from './service-ports.ts'
import type { ServicePort, Snapshot } from './snapshot.ts'

/** ServicePorts by key as they are to be; undefined for one that went. */
type Edits = Map<string, ServicePort | undefined>

/**
 * The current snapshot of each family. A Service whose ServicePorts are built anew and
 * come out equal leaves the old objects, and the old snapshot, where they are.
 */
export class SnapshotTable {
  readonly #portsOf = new Map<string, readonly ServicePort[]>()
  #snapshots: Readonly<Record<IpFamily, Snapshot>> = {
    IPv4: { family: 'IPv4', servicePorts: new Map(), healthChecks: new Map() },
    IPv6: { family: 'IPv6', servicePorts: new Map(), healthChecks: new Map() },
  }

  get(family: IpFamily): Snapshot {
    return this.#snapshots[family]
  }

  /** Puts the ServicePorts of each Service given (by name) in the place of its old ones. */
  replace(services: Iterable<[string, readonly ServicePort[]]>): void {
    const edits: Record<IpFamily, Edits> = { IPv4: new Map(), IPv6: new Map() }
    for (const [service, ports] of services) {
      for (const { family, key } of this.#portsOf.get(service) ?? []) {
        edits[family].set(key, undefined)
      }
      const kept = ports.map(port => this.#publishedAs(port) ?? port)
      for (const port of kept) edits[port.family].set(port.key, port)
      if (kept.length > 0) this.#portsOf.set(service, kept)
      else this.#portsOf.delete(service)
    }
    for (const family of ipFamilies) {
      const edited = edit(this.#snapshots[family], edits[family])
      this.#snapshots = { ...this.#snapshots, [family]: edited }
    }
  }

  /** The object that says the same in the current snapshot. */
  #publishedAs(port: ServicePort): ServicePort | undefined {
    const published = this.#snapshots[port.family].servicePorts.get(port.key)
    return published && sameServicePort(published, port) ? published : undefined
  }
}

/** In the order of keys, so that whoever walks a snapshot meets the same order again. */
const edit = (snapshot: Snapshot, edits: Edits): Snapshot => {
  const changes = [...edits].filter(
    ([key, port]) => snapshot.servicePorts.get(key) !== port,
  )
  if (changes.length === 0) return snapshot
  const edited = new Map(snapshot.servicePorts)
  let grew = false
  for (const [key, port] of changes) {
    grew ||= port !== undefined && !edited.has(key)
    if (port === undefined) edited.delete(key)
    else edited.set(key, port)
  }
  // The old ones are in order already, which makes the sort all but linear.
  const servicePorts = grew
    ? new Map([...edited].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : edited
  return { ...snapshot, servicePorts }
}
