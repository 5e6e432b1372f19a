import { startPostgres } from '../../sidecar/postgres.ts'
import { type Servers, startServers } from '../../sidecar/servers.ts'
import type { BenchService, Care, Endpoint } from '../../services.ts'
import type { Metric } from '../../record/record.ts'
import { freePorts } from '../../targets/probe.ts'
import type { Lane } from '../../topology/topology.ts'
import type { Scenario, Site } from '../scenario.ts'

/** What clients dial. */
export const service = 'db'

/** Sessions that had no answer, or none in time. */
export const failedClients: Metric = {
  name: 'failed',
  title: 'Failed clients',
  unit: '',
  better: 'lower',
  decimals: 0,
}

/** Addresses of the target's own node: as many as there are, at the same port. */
export const nodeEndpoints = async (
  lane: Lane,
  count: number,
): Promise<readonly Endpoint[]> => {
  const [port = 0] = await freePorts(lane, '0.0.0.0', 1)
  return Array.from({ length: count }, (_, i) => ({
    address: `127.0.${1 + Math.floor(i / 250)}.${1 + (i % 250)}`,
    port,
  }))
}

/** Scenarios of the group are alike in this. */
export const sidecarScenario = (
  own: Omit<Scenario, 'group' | 'fresh' | 'mostRounds' | 'run'> &
    Required<Pick<Scenario, 'targets' | 'site'>>,
): Scenario => ({
  ...own,
  group: 'sidecar',
  fresh: true,
  mostRounds: 1,
  whyNot: () =>
    process.platform === 'linux' ? (own.whyNot?.() ?? '') : 'it needs Linux',
  run: () => Promise.reject(new Error('its servers were not started')),
})

/** Three PostgreSQL servers, and others for what is asked beside them. */
export interface PostgresSite {
  readonly endpoints: readonly Endpoint[]
  readonly servers: Awaited<ReturnType<typeof startPostgres>>['servers']
  readonly others: Servers
  /** The service, and one that tells whether the target is there: it answers all clients. */
  readonly servicesWith: (care: Care) => Pick<Site, 'services' | 'awaited'>
  readonly stop: () => Promise<void>
}

export const postgresSite = async (
  lane: Lane,
  workDir: string,
): Promise<PostgresSite> => {
  const endpoints = await nodeEndpoints(lane, 3)
  const others = startServers(lane)
  try {
    const ready = await readiness(lane, others)
    const { servers, stop } = await startPostgres(lane, endpoints, workDir)
    const stopAll = async (): Promise<void> => {
      await Promise.all([stop(), others.stop()])
    }
    const servicesWith = (care: Care) => ({
      services: [...cared(endpoints, care), ready],
      awaited: [ready.name],
    })
    return { endpoints, servers, others, servicesWith, stop: stopAll }
  } catch (error) {
    await others.stop()
    throw error
  }
}

/** PostgreSQL has no answer for those who ask whether a target serves. */
const readiness = async (lane: Lane, servers: Servers): Promise<BenchService> => {
  const endpoints = await nodeEndpoints(lane, 1)
  for (const at of endpoints) await servers.listen('checked', at)
  return { name: 'ready', protocol: 'TCP', endpoints }
}

/** One service. */
export const cared = (
  endpoints: readonly Endpoint[],
  care: Care,
): readonly BenchService[] => [{ name: service, protocol: 'TCP', endpoints, care }]
