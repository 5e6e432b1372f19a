import type { Test } from 'tap'
import { readyEndpoint } from '../../src/model/service.ts'
import type { ServicePort } from '../../src/model/snapshot.ts'
import { pageRoutes, Viewers } from '../../src/observe/page/viewers.ts'
import type { StatusInput } from '../../src/observe/status-document.ts'
import { newCounters } from '../../src/relay/counters.ts'
import type { ListenerStats } from '../../src/relay/relay.ts'
import { type Clock, systemClock } from '../../src/util/clock.ts'
import { start } from '../observe/admin-client.ts'
import { clusterIp, servicePort } from './service-ports.ts'

/** The status of an Usher with so many ServicePorts, a tenth of them busy; there is no relay behind it. */
export const statusOfMany = (services: number) => {
  const ports = Array.from({ length: services }, (_, i) => portOf(i))
  const snapshot = {
    family: 'IPv4',
    servicePorts: new Map(ports.map(port => [port.key, port])),
    healthChecks: new Map(),
  } as const
  const placements = ports.map(port => ({
    servicePort: port,
    listenerId: port.key,
    vips: port.vips.map(
      vip => ({ vip, capture: 'local', binds: [], reason: '' }) as const,
    ),
  }))
  let looks = 0
  const status = async (over: Partial<StatusInput> = {}): Promise<StatusInput> => {
    looks += 1
    const now = looks
    return {
      version: '1.2.3',
      startedAt: Date.now() - 60_000,
      draining: false,
      orders: [],
      checksOf: () => undefined,
      snapshots: [snapshot],
      placements,
      stats: {
        listeners: {
          *[Symbol.iterator]() {
            for (const [i, port] of ports.entries()) yield listenerOf(port, i, now)
          },
        },
        fds: { used: services, limit: 100_000 },
        acceptPaused: false,
      },
      source: { name: 'a test', synced: true, lastGoodAt: Date.now(), error: '' },
      problems: [],
      health: { healthy: true, reasons: [], lastUpdated: Date.now() },
      mode: { name: 'userspace', mode: '', by: '', detail: '', passedOver: [] },
      ...over,
    }
  }
  return { status, ports, looks: () => looks }
}

const portOf = (i: number): ServicePort => {
  const endpoints = [1, 2, 3, 4].map(e =>
    Object.assign(readyEndpoint(`10.1.${i % 250}.${e}`), { port: 8080 }),
  )
  const target = { verdict: 'forward', endpoints } as const
  return servicePort(`service-${String(i).padStart(5, '0')}`, {
    vips: [clusterIp(`10.96.${i >> 8}.${i & 255}`)],
    endpoints,
    reachable: endpoints,
    internal: target,
    external: target,
    externalFromNode: target,
  })
}

const listenerOf = (port: ServicePort, i: number, now: number): ListenerStats => ({
  id: port.key,
  name: port.name,
  protocol: 'TCP',
  binds: [],
  endpoints: port.endpoints.map(({ address }) => ({
    key: `${address}:8080`,
    active: 0,
    failures: 0,
    coolingDown: false,
  })),
  counters: {
    ...newCounters(),
    ...(i % 10 === 0 && {
      active: i % 7,
      accepted: now * (1 + (i % 50)),
      bytesToBackend: now * i,
      bytesToClient: now * i * 3,
    }),
  },
  lastError: '',
  failing: false,
  wanted: true,
})

/** The page of `status`, on a server of its own that is closed when the test ends. */
export const servePage = async (
  t: Test,
  status: () => Promise<StatusInput>,
  given?: StatusInput,
  clock: Clock = systemClock,
  recent: { readonly texts: ReadonlyMap<string, string> } = { texts: new Map() },
) => {
  const first = given ?? (await status())
  const records: object[] = []
  const say = (fields: object): void => void records.push(fields)
  const viewers = new Viewers({ status, recent, clock, log: { error: say, warn: say } })
  const routes = pageRoutes({ viewers, status: () => first })
  const { server } = await start(t, routes, { address: '127.0.0.1', port: 0 })
  return { address: server.address(), records, close: () => server.close() }
}
