import { startPostgres } from '../../sidecar/postgres.ts'
import type { Servers } from '../../sidecar/servers.ts'
import type { BenchService, Care, Endpoint } from '../../services.ts'
import type { Metric } from '../../record/record.ts'
import type { Lane } from '../../topology/topology.ts'
import type { Scenario, Site } from '../scenario.ts'
import { atFreePort, serversAt } from './free-port.ts'

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

/** Scenarios of the group are alike in this. */
export const sidecarScenario = (
  own: Omit<Scenario, 'group' | 'fresh' | 'mostRounds' | 'run'> &
    Required<Pick<Scenario, 'targets' | 'site'>>,
): Scenario => ({
  ...own,
  group: 'sidecar',
  fresh: true,
  mostRounds: 1,
  unsupportedReason: () =>
    process.platform === 'linux' ? (own.unsupportedReason?.() ?? '') : 'it needs Linux',
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
  // PostgreSQL has no answer for those who ask whether a target serves.
  const { servers: others, endpoints: checked } = await serversAt(
    lane,
    1,
    async (one, [at]) => at && one.listen('checked', at),
  )
  const ready: BenchService = { name: 'ready', protocol: 'TCP', endpoints: checked }
  try {
    const start = async (endpoints: readonly Endpoint[]) => ({
      endpoints,
      ...(await startPostgres(lane, endpoints, workDir)),
    })
    const { endpoints, servers, stop } = await atFreePort(lane, 3, start)
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

/** One service. */
export const cared = (
  endpoints: readonly Endpoint[],
  care: Care,
): readonly BenchService[] => [{ name: service, protocol: 'TCP', endpoints, care }]
