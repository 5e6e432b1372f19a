import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchService } from '../../services.ts'
import { milliseconds, sampleOf } from '../metrics.ts'
import type { Run } from '../scenario.ts'
import { serversAt } from './free-port.ts'
import { failedClients, sidecarScenario } from './site.ts'

const routes = 500
const unchanged = 'route-0'
const changed = 'route-1'
/** Of windows of 2 s. */
const whole = 5
const everyMs = 1000
const connectionsPerSecond = 100
const requestsPerSecond = 200
const timeoutMs = 5000

export const reload = sidecarScenario({
  name: `reload-${routes}`,
  title: `a file of ${routes} routes that changes every ${everyMs / 1000} s`,
  about: `The endpoints of one route change and the file is read again, while another route, which stays as it is, has ${connectionsPerSecond} new connections a second and ${requestsPerSecond} requests a second on kept ones. The stall is the longest time from when a request was due to its answer. HAProxy's new process takes over from the old one (-sf), nginx has new workers.`,
  metrics: [
    milliseconds('stall', 'Longest stall', 1),
    failedClients,
    milliseconds('p99', 'Request p99'),
  ],
  goals: [
    { target: 'sidecar', metric: 'failed', atMost: 0 },
    { target: 'sidecar', metric: 'stall', atMost: 20 },
  ],
  targets: ['sidecar', 'haproxy-checks', 'nginx'],
  expectedSeconds: window => 3 + whole * window,
  site: async lane => {
    const { endpoints, servers } = await serversAt(lane, 3, (all, places) =>
      Promise.all(places.map(at => all.listen('http', at))),
    )
    return {
      services: Array.from({ length: routes }, (_, i): BenchService => ({
        name: `route-${i}`,
        protocol: 'TCP',
        endpoints,
      })),
      awaited: [unchanged, `route-${routes - 1}`],
      run: measure,
      stop: servers.stop,
    }
  },
})

const reloading = async ({ running }: Run, site: readonly BenchService[], ms: number) => {
  const endpoints = site.find(({ name }) => name === changed)?.endpoints ?? []
  for (let turn = 0; turn * everyMs < ms; turn += 1) {
    await running.setEndpoints?.(changed, endpoints.slice(turn % 2))
    await sleep(everyMs)
  }
}

const measure = async (run: Run) => {
  const seconds = whole * run.seconds
  const at = { to: run.to(unchanged), path: '/64' }
  const perSecond = connectionsPerSecond
  const [kept, fresh] = await Promise.all([
    run.load(
      { kind: 'open-loop', ...at, connections: 8, perSecond: requestsPerSecond },
      seconds,
    ),
    run.load({ kind: 'paced-connections', ...at, perSecond, timeoutMs }, seconds),
    reloading(run, run.site?.services ?? [], seconds * 1000),
  ])
  const notDone = ({ done, tried = done }: typeof kept): number => tried - done
  const errors = { ...kept.errors }
  for (const [name, times] of Object.entries(fresh.errors))
    errors[name] = (errors[name] ?? 0) + times
  return sampleOf(
    { ...kept, errors },
    {
      ...(kept.latency && { stall: kept.latency.max, p99: kept.latency.p99 }),
      failed: notDone(kept) + notDone(fresh),
    },
  )
}
