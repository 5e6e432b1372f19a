import { failedShare, milliseconds, percent, sampleOf } from './metrics.ts'
import type { Run, Scenario } from './scenario.ts'

const perSecond = 200
const timeoutMs = 5000

const visits = (run: Run, service: string) =>
  run.load({
    kind: 'paced-connections',
    to: run.to(service),
    path: '/64',
    perSecond,
    timeoutMs,
  })

export const retry: Scenario = {
  name: 'retry',
  group: 'failure',
  title: 'six backends: two serve, three refuse, one is silent',
  about: `${perSecond} new connections a second from the moment the proxy is up. Failed are those without a whole answer in ${timeoutMs / 1000} s. Added latency is beside the same proxy with only the two that serve. Nobody checks health actively: what counts is what becomes of a connection that meets a dead backend.`,
  metrics: [
    percent('failed', 'Failed'),
    milliseconds('added p50', 'Added p50'),
    milliseconds('added p99', 'Added p99'),
  ],
  goals: [{ target: 'usher', metric: 'failed', atMost: 0 }],
  quick: true,
  fresh: true,
  mostRounds: 3,
  services: ({ endpoints, refusing, silent }) => [
    { name: 'healthy', protocol: 'TCP', endpoints: endpoints('http') },
    {
      name: 'degraded',
      protocol: 'TCP',
      endpoints: [...endpoints('http'), ...refusing(3), silent],
    },
  ],
  // Waiting for the other would tell the proxy beforehand which endpoints are dead.
  awaited: ['healthy'],
  leavesOut: ({ kind }) =>
    kind === 'direct' ? 'a client that dials an endpoint itself has no other' : '',
  expectedSeconds: window => 2 * window + 2,
  run: async run => {
    const healthy = await visits(run, 'healthy')
    const degraded = await visits(run, 'degraded')
    const { latency } = degraded
    const added =
      latency && healthy.latency
        ? {
            'added p50': latency.p50 - healthy.latency.p50,
            'added p99': latency.p99 - healthy.latency.p99,
          }
        : {}
    return sampleOf(degraded, { failed: failedShare(degraded), ...added })
  },
}
