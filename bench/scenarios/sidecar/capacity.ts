import { milliseconds, sampleOf } from '../metrics.ts'
import { serversAt } from './free-port.ts'
import { cared, failedClients, service, sidecarScenario } from './site.ts'

const timeoutMs = 10_000
const clients = { unequal: 64, queued: 500 }
const maxConnections = 80

/** One server is ten times slower than two others, and each serves one client after another. */
const unequal = sidecarScenario({
  name: 'unequal',
  title: 'one of three servers is ten times slower; least connections',
  about: `${clients.unequal} clients, each with one short session after another. Two servers take 2 ms for a client and one 20 ms, one client after another.`,
  metrics: [milliseconds('p99', 'Answer p99', 1), milliseconds('p50', 'Answer p50', 1)],
  goals: [{ target: 'sidecar', metric: 'p99', to: 'haproxy-checks', atMost: 1 }],
  targets: ['sidecar', 'sidecar-4', 'haproxy-checks'],
  expectedSeconds: window => 2 + window,
  site: async lane => {
    const { endpoints, servers } = await serversAt(lane, 3, (all, places) =>
      Promise.all(places.map((at, i) => all.listen(i === 0 ? 'slow' : 'fast', at))),
    )
    return {
      services: cared(endpoints, { check: 'none', leastConnections: true }),
      run: async run => {
        const to = run.to(service)
        const about = { speaks: 'asks first', clients: clients.unequal } as const
        const rest = { pauseMs: 0, timeoutMs }
        const answer = await run.load({ kind: 'sessions', to, ...about, ...rest })
        const { p99 = Infinity, p50 = Infinity } = answer.latency ?? {}
        return sampleOf(answer, { p99, p50 })
      },
      stop: servers.stop,
    }
  },
})

/** More clients than the servers may have connections. */
const queued = sidecarScenario({
  name: 'queued',
  title: `${clients.queued} clients, three servers that may have ${maxConnections} connections each`,
  about: `Clients with one short session after another, each of which holds a server's connection for 20 ms. What waits for a place waits 5 s at most. Servers count what they have.`,
  metrics: [
    {
      name: 'beyond',
      title: `Connections beyond ${maxConnections}, the most at any`,
      unit: '',
      better: 'lower',
      decimals: 0,
    },
    failedClients,
    milliseconds('p99', 'Answer p99', 0),
  ],
  goals: ['sidecar', 'sidecar-4'].flatMap(target =>
    ['beyond', 'failed'].map(metric => ({ target, metric, atMost: 0 })),
  ),
  targets: ['sidecar', 'sidecar-4', 'haproxy-checks'],
  expectedSeconds: window => 2 + window,
  site: async lane => {
    const { endpoints, servers } = await serversAt(lane, 3, (all, places) =>
      Promise.all(places.map(at => all.listen('holds', at))),
    )
    return {
      services: cared(endpoints, { check: 'none', maxConnections }),
      run: async run => {
        const to = run.to(service)
        const about = { speaks: 'asks first', clients: clients.queued } as const
        const rest = { pauseMs: 0, timeoutMs }
        const answer = await run.load({ kind: 'sessions', to, ...about, ...rest })
        const { done, tried = done, latency } = answer
        return sampleOf(answer, {
          beyond: Math.max(0, (await servers.most()) - maxConnections),
          failed: tried - done,
          ...(latency && { p99: latency.p99 }),
        })
      },
      stop: servers.stop,
    }
  },
})

export const capacityScenarios = [unequal, queued]
