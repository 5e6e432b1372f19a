import { milliseconds, sampleOf, windowAndSettling } from './metrics.ts'
import type { Prepared, Run, RunsOf, Scenario } from './scenario.ts'

const connections = 64
const calibrationSeconds = 1
/** Code that is not compiled yet would make for a low rate. */
const warmUpSeconds = 0.5

/** How many requests a second a target does when it is asked for more and more. */
const capacity = async (run: Run): Promise<number> => {
  const to = run.to('http')
  const traffic = {
    kind: 'requests',
    generator: 'own',
    to,
    path: '/64',
    connections,
  } as const
  await run.load(traffic, warmUpSeconds)
  const { done, seconds } = await run.load(traffic, calibrationSeconds)
  return done / seconds
}

/**
 * One rate for all, or their latencies could not be compared: a share of what the slowest
 * proxy can do.
 */
const rateForAll = async (runsOf: RunsOf, share: number): Promise<Prepared> => {
  let slowest = { name: '', perSecond: Infinity }
  for (const run of await runsOf(({ kind }) => kind !== 'direct')) {
    if (run.running.addressOf('http') === undefined) continue
    const perSecond = await capacity(run)
    if (perSecond > 0 && perSecond < slowest.perSecond)
      slowest = { name: run.target.name, perSecond }
  }
  if (slowest.name === '') throw new Error('no proxy served, so there is no capacity')
  const value = Math.round(slowest.perSecond * share)
  return {
    notes: [
      `Offered to all: ${value.toLocaleString('en-US')} requests a second, ${share * 100} % of what the slowest proxy (${slowest.name}) could do just before.`,
    ],
    value,
  }
}

const latency = (
  share: number,
  traits: Pick<Scenario, 'quick' | 'goals'> = {},
): Scenario => ({
  name: `latency-${share * 100}`,
  group: 'latency',
  title: `requests at ${share * 100} % of capacity, over ${connections} connections`,
  about:
    'Requests come at a fixed rate whether or not earlier ones were answered, and are timed from when they were due: a proxy that stalls is charged for all requests that would have waited.',
  metrics: [
    milliseconds('p99', 'p99'),
    milliseconds('p50', 'p50'),
    milliseconds('p90', 'p90'),
    milliseconds('p999', 'p99.9'),
    milliseconds('late p99', 'Generator late p99'),
  ],
  httpOnly: true,
  prepare: runsOf => rateForAll(runsOf, share),
  expectedSeconds: window =>
    windowAndSettling(window) + (warmUpSeconds + calibrationSeconds) / 3,
  run: async (run, { value: perSecond = 0 }) => {
    const to = run.to('http')
    const answer = await run.load({
      kind: 'open-loop',
      to,
      path: '/64',
      connections,
      perSecond,
    })
    const { latency: found, late } = answer
    if (found === undefined) throw new Error('no request was answered')
    const { p50, p90, p99, p999 } = found
    return sampleOf(answer, {
      p50,
      p90,
      p99,
      p999,
      ...(late && { 'late p99': late.p99 }),
    })
  },
  ...traits,
})

export const latencyScenarios: readonly Scenario[] = [
  latency(0.5, {
    quick: true,
    goals: [{ target: 'usher-linux', metric: 'p99', to: 'haproxy', atMost: 1 }],
  }),
  latency(0.8),
]
