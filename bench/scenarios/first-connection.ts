import type { BenchService } from '../services.ts'
import { readUsage } from '../process/usage.ts'
import { milliseconds, sampleOf } from './metrics.ts'
import { type Backends, type Scenario, notGivenReason } from './scenario.ts'

/** Of so many Services at most each is dialled once in a run. */
const mostDialled = 200

/** With zeros, so that the last comes last for those who work in the order of names, too. */
export const nameOf = (index: number): string =>
  `service-${String(index).padStart(5, '0')}`

/** Of fewer dials the 90th percentile is the one or two slowest. */
const fewestForP90 = 50

/** So many, and one before and one after them. */
export const services = (
  count: number,
  { endpoints }: Backends,
): readonly BenchService[] =>
  Array.from({ length: count + 2 }, (_, index) => ({
    name: nameOf(index),
    protocol: 'TCP',
    endpoints: endpoints('http'),
  }))

/** Beside those that are dialled; they tell that all are there. */
export const awaited = (count: number): readonly string[] => [
  nameOf(0),
  nameOf(count + 1),
]

/** Spread over all, the last among them: rules that are walked through are longest there. */
const dialled = (count: number): readonly string[] => {
  const dials = Math.min(count, mostDialled)
  return Array.from({ length: dials }, (_, i) =>
    nameOf(Math.ceil(((i + 1) * count) / dials)),
  )
}

const firstConnection = (count: number): Scenario => ({
  name: `first-${count}`,
  group: 'first',
  title: `${count.toLocaleString('en-US')} Service${count === 1 ? '' : 's'} configured`,
  about:
    'From dialling to the whole answer, for Services not dialled before: what it costs to find one among many.',
  metrics: [
    milliseconds('p50', 'First answer p50'),
    milliseconds('p90', 'First answer p90'),
    milliseconds('connect p50', 'Connect p50'),
    {
      name: 'memory',
      title: 'Memory of the proxy',
      unit: 'MB',
      better: 'lower',
      decimals: 0,
    },
  ],
  services: backends => services(count, backends),
  awaited: awaited(count),
  fresh: true,
  // A single dial says little, and takes no time.
  ...(count > 1 && { mostRounds: 3 }),
  leavesOut: target =>
    target.kind === 'floor' ? 'it knows no Services' : notGivenReason(target),
  expectedSeconds: () => 2 + count / 1000,
  run: async run => {
    const answer = await run.load({
      kind: 'first-connections',
      to: dialled(count).map(run.to),
      path: '/64',
    })
    const { latency, connect } = answer
    if (latency === undefined) throw new Error('none was answered')
    const memory = readUsage(run.running.pids())?.rssBytes
    return sampleOf(answer, {
      p50: latency.p50,
      ...(latency.count >= fewestForP90 && { p90: latency.p90 }),
      ...(connect && { 'connect p50': connect.p50 }),
      ...(memory && { memory: memory / 1e6 }),
    })
  },
})

export const firstConnectionScenarios: readonly Scenario[] = [
  firstConnection(1),
  firstConnection(1000),
  firstConnection(10_000),
]
