import { everyRelay, failedShare, milliseconds, percent, sampleOf } from './metrics.ts'
import { type Run, type Scenario, notGivenReason } from './scenario.ts'

const perSecond = 200
const timeoutMs = 5000

/** For compiled code, which would be booked on the one that is measured first. */
const warmUpSeconds = 0.5

const visits = (run: Run, service: string, seconds?: number) =>
  run.load(
    {
      kind: 'paced-connections',
      to: run.to(service),
      path: '/64',
      perSecond,
      timeoutMs,
      // What the first ones teach a proxy about its endpoints is part of what is measured.
      fromTheFirst: true,
    },
    seconds,
  )

export const retry: Scenario = {
  name: 'retry',
  group: 'failure',
  title: 'six backends: two serve, three refuse, one is silent',
  about: `${perSecond} new connections a second, counted from the first that the proxy gets for that Service. Failed are those without a whole answer in ${timeoutMs / 1000} s. Added latency is beside the same process and a Service with only the two that serve, just before. No target checks health actively: what counts is what becomes of a connection that meets a dead backend. A kernel mode can not try another one: its failures are what a relay is there for.`,
  metrics: [
    percent('failed', 'Failed'),
    milliseconds('added p50', 'Added p50'),
    milliseconds('added p99', 'Added p99'),
  ],
  goals: everyRelay({ metric: 'failed', atMost: 0 }),
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
  leavesOut: target =>
    target.kind === 'direct'
      ? 'a client that dials an endpoint itself has no other'
      : notGivenReason(target),
  expectedSeconds: window => 2 * window + 2.5,
  run: async run => {
    await visits(run, 'healthy', warmUpSeconds)
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
