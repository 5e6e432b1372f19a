import type { ServicePort, Snapshot } from '../model/snapshot.ts'
import { SortedMap } from '../model/sorted-map.ts'

/** The ServicePorts of a snapshot, without a copy where there is a list of them. */
export const listOfServicePorts = ({
  servicePorts,
}: Pick<Snapshot, 'servicePorts'>): readonly ServicePort[] =>
  servicePorts instanceof SortedMap ? servicePorts.list : [...servicePorts.values()]
