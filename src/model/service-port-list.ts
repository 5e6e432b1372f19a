import type { ServicePort, Snapshot } from './snapshot.ts'
import { SortedMap } from './sorted-map.ts'

/** The ServicePorts of a snapshot, without a copy where there is a list of them. */
export const listOfServicePorts = ({
  servicePorts,
}: Pick<Snapshot, 'servicePorts'>): readonly ServicePort[] =>
  servicePorts instanceof SortedMap ? servicePorts.list : [...servicePorts.values()]

/** Of all families. Most clusters have one, and then nothing is copied. */
export const joinLists = (
  lists: readonly (readonly ServicePort[])[],
): readonly ServicePort[] => {
  const [only, ...more] = lists.filter(({ length }) => length > 0)
  return more.length === 0 ? (only ?? []) : ([] as ServicePort[]).concat(...lists)
}
