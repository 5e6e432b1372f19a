import { benchProgram, callsTo, type Remote, startChild } from '../process/child.ts'
import type { Place } from '../topology/topology.ts'
import type { ServerCalls } from './servers-main.ts'

export type { Behaviour } from './servers-main.ts'

const answersWithinMs = 20_000

/** A process with servers of a scenario's own. */
export type Servers = Remote<ServerCalls> & { readonly stop: () => Promise<void> }

export const startServers = ({ enter }: Pick<Place, 'enter'>): Servers => {
  const child = startChild(benchProgram('sidecar/servers-main'), enter)
  const { listen, echo, setPrimary, most } = callsTo<ServerCalls>(child, answersWithinMs)
  return { listen, echo, setPrimary, most, stop: () => child.stop() }
}
