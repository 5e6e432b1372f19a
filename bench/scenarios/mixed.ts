import { milliseconds, rate, sampleOf, windowAndSettling } from './metrics.ts'
import type { Scenario } from './scenario.ts'

/** Far below what any proxy can do, so that without bulk there are no queues. */
const perSecond = 1000
const connections = 16
const bytesPerGigabit = 1e9 / 8

export const mixed: Scenario = {
  name: 'mixed',
  group: 'mixed',
  title: `${perSecond} requests a second beside one download`,
  about:
    'Small requests at a fixed rate, first alone, then beside one stream that takes all it can get through the same proxy: how many times longer the slowest hundredth waits. What the direct path shows is what client, backend and kernel add by themselves.',
  metrics: [
    {
      name: 'slowdown',
      title: 'p99 beside bulk to p99 alone',
      unit: 'times',
      better: 'lower',
      decimals: 2,
    },
    milliseconds('p99 beside', 'p99 beside bulk'),
    milliseconds('p99 alone', 'p99 alone'),
    milliseconds('p50 beside', 'p50 beside bulk'),
    { ...rate('Gbit/s', 'The download', 2), name: 'download' },
    milliseconds('late p99', 'Generator late p99'),
  ],
  // Where the processors are all taken, the direct path's requests wait for the download's
  // client and server already: the second goal leaves that out.
  goals: [
    { target: 'usher-linux', metric: 'slowdown', atMost: 3 },
    { target: 'usher-linux', metric: 'p99 beside', to: 'direct', atMost: 3 },
  ],
  quick: true,
  expectedSeconds: window => 2 * windowAndSettling(window),
  run: async run => {
    const small = { to: run.to('http'), path: '/64', connections, perSecond } as const
    const alone = await run.load({ kind: 'open-loop', ...small })
    const download = run.to('source')
    const beside = await run.load({ kind: 'mixed', ...small, download })
    if (alone.latency === undefined || beside.latency === undefined)
      throw new Error('no request was answered')
    const { besideBytes = 0, seconds, late } = beside
    return sampleOf(
      { ...beside, errors: sumOf(alone.errors, beside.errors) },
      {
        slowdown: beside.latency.p99 / alone.latency.p99,
        'p99 beside': beside.latency.p99,
        'p99 alone': alone.latency.p99,
        'p50 beside': beside.latency.p50,
        download: besideBytes / seconds / bytesPerGigabit,
        ...(late && { 'late p99': late.p99 }),
      },
    )
  },
}

type Errors = Readonly<Record<string, number>>

const sumOf = (one: Errors, other: Errors): Errors => {
  const sum: Record<string, number> = { ...one }
  for (const [name, times] of Object.entries(other)) sum[name] = (sum[name] ?? 0) + times
  return sum
}
