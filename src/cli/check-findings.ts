import type { ServicePort, Problem } from '../model/snapshot.ts'
import { Registry } from '../model/registry.ts'
import { FirstSight, type ManifestSet } from '../source/manifests/manifest-set.ts'
import { ipFamilies } from '../util/ip.ts'

export interface Findings {
  /** What Usher would refuse: of documents and values, then of Services in conflict. */
  readonly problems: readonly Problem[]
  /** What it would take although it is probably not meant. */
  readonly warnings: readonly string[]
}

/**
 * Why clients of a ServicePort would be refused; undefined when they would not. With a
 * Local policy it depends on the node, and is not known here.
 */
const refusal = (port: ServicePort): string | undefined => {
  if (port.internal.verdict !== 'reject') return undefined
  const why = port.endpoints.length === 0 ? 'no endpoints' : 'no endpoint that is ready'
  return `Service ${port.name} (${port.protocol}, ${port.family}) has ${why}; its clients would be refused`
}

/** Endpoints of Services that are not there; a refused Service has its own problem. */
const orphans = (set: ManifestSet): string[] => {
  const present = new Set([...set.objects.map(({ key }) => key), ...set.refused])
  const warnings = new Set<string>()
  for (const { key, changes } of set.objects)
    for (const change of changes) {
      if (change.kind !== 'EndpointSlice' || change.object === undefined) continue
      const service = `Service ${change.namespace}/${change.object.serviceName}`
      if (!present.has(service))
        warnings.add(`${key} is for ${service}, which is not there; it would not be used`)
    }
  return [...warnings]
}

/** What is wrong, or odd, about a set of manifests as a running Usher would see it. */
export const findingsOf = (set: ManifestSet): Findings => {
  const registry = new Registry()
  const firstSight = new FirstSight()
  registry.apply(set.objects.flatMap(object => firstSight.numbered(object).changes))
  const ports = ipFamilies.flatMap(family =>
    Array.from(registry.snapshot(family).servicePorts.values()),
  )
  const problems = [...set.problems, ...registry.problems()]
  // What could not be read may hold just what seems to be missing.
  if (set.unreadable.length > 0) return { problems, warnings: [] }
  const warnings = ports.map(refusal).filter(text => text !== undefined)
  if (ports.length === 0) warnings.push('there is no Service with an address to serve')
  return { problems, warnings: [...warnings, ...orphans(set), ...set.warnings] }
}
