import type { BenchService, Endpoint } from '../services.ts'
import type { Lane } from '../topology/topology.ts'
import { freePorts } from './probe.ts'

/** A free port of the node for each service, by the service's name. */
export const nodePorts = async (
  lane: Lane,
  services: readonly BenchService[],
): Promise<ReadonlyMap<string, Endpoint>> => {
  const address = lane.nodeAddress
  const ports = await freePorts(lane, address, services.length)
  return new Map(
    services.map(({ name }, index) => [name, { address, port: ports[index] ?? 0 }]),
  )
}
