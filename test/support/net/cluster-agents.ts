import type { Test } from 'tap'
import { addressOf, backendPort, type BackendName, type HostName } from './addresses.ts'
import { type Agent, startAgent } from './agent.ts'
import { writeAgentProgram } from './agent-program.ts'
import { type ClusterNet, hostNames } from './cluster-net.ts'
import { tempDirectory } from './temp-directory.ts'

export type Agents = Readonly<Record<HostName, Agent>>

const backends: readonly BackendName[] = ['backend-1', 'backend-2', 'backend-3', 'node']

/** Somebody in each namespace; the backends answer already. */
export const startAgents = async (t: Test, net: ClusterNet): Promise<Agents> => {
  const program = await writeAgentProgram(await tempDirectory(t))
  const started = await Promise.all(
    hostNames.map(async host => [host, await startAgent(t, net[host], program)] as const),
  )
  const agents = Object.fromEntries(started) as Record<HostName, Agent>
  await serveBackends(agents)
  return agents
}

/** From then on they answer. */
export const serveBackends = async (agents: Agents): Promise<void> => {
  await Promise.all(
    backends.map(name => {
      const { IPv4, IPv6 } = addressOf[name]
      return agents[name].serve(name, [IPv4, IPv6], backendPort)
    }),
  )
}
