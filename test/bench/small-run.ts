import type {
  Metric,
  Outcome,
  RunRecord,
  Sample,
  ScenarioRecord,
} from '../../bench/record/record.ts'

export const rate: Metric = {
  name: 'rate',
  title: 'Requests',
  unit: 'req/s',
  better: 'higher',
  decimals: 0,
}

export const delay: Metric = {
  name: 'p99',
  title: '99 of 100',
  unit: 'ms',
  better: 'lower',
  decimals: 2,
}

const cost: Metric = {
  name: 'cost',
  title: 'CPU time of the proxy',
  unit: 'us/req',
  better: 'lower',
  decimals: 1,
}

export const sampleOf = (
  figures: Sample['figures'],
  more: Partial<Sample> = {},
): Sample => ({ figures, errors: {}, ...more })

/** A round for each figure, from 0 on. */
export const rounds = (
  target: string,
  metric: Metric,
  figures: readonly number[],
  more: Partial<Sample> = {},
): Outcome[] =>
  figures.map((figure, round) => ({
    target,
    round,
    sample: sampleOf({ [metric.name]: figure }, more),
  }))

export const scenarioOf = (
  outcomes: readonly Outcome[],
  more: Partial<ScenarioRecord> = {},
): ScenarioRecord => ({
  name: 'requests-32',
  group: 'requests',
  title: '32 kept connections, answers of 64 B',
  about: 'What a relay costs for each message.',
  metrics: [rate],
  notes: [],
  goals: [],
  outcomes,
  leftOut: [],
  ...more,
})

const requests = scenarioOf(
  [
    {
      target: 'usher',
      round: -1,
      sample: sampleOf({ rate: 1 }, { errors: { ECONNRESET: 34 } }),
    },
    ...rounds('direct', rate, [90_000, 92_000, 88_000], {
      cores: { generator: 0.95, backend: 0.5, others: 0.01 },
    }),
    ...rounds('haproxy', rate, [50_000, 51_000, 40_000], {
      cores: { generator: 0.5, backend: 0.3, proxy: 0.9, others: 0.2 },
    }),
    ...[45_000, 52_000, 41_000].map((figure, round) => ({
      target: 'usher',
      round,
      sample: sampleOf(
        { rate: figure, cost: 21.5 + round },
        {
          cores: { generator: 0.5, backend: 0.3, proxy: 0.95, others: 0.02 },
          errors: round === 1 ? { ECONNRESET: 1200 } : {},
        },
      ),
    })),
  ],
  {
    metrics: [rate, cost],
    goals: [
      { target: 'usher', metric: 'rate', to: 'haproxy', atLeast: 1.1 },
      { target: 'usher', metric: 'cost', atMost: 25 },
      { target: 'usher', metric: 'rate', to: 'nginx', atLeast: 0.5 },
    ],
  },
)

const latency = scenarioOf(
  [
    ...rounds('direct', delay, [0.2, 0.21, 0.2]),
    { target: 'haproxy', round: 0, failure: 'gave no answer in 5 s' },
    ...rounds('haproxy', delay, [9, 0.4, 0.41]).slice(1),
    ...rounds('usher', delay, [2.4, 5.25, 2.6]),
  ],
  {
    name: 'latency-50',
    group: 'latency',
    title: 'requests at 50 % of capacity | over 64 connections',
    metrics: [delay],
    notes: ['Offered to all: 20,000 requests a second.'],
  },
)

const idle = scenarioOf([], {
  name: 'idle',
  group: 'latency',
  title: 'memory of idle connections',
  about: '',
  leftOut: [{ name: 'direct', why: 'there is no proxy to measure' }],
})

/** A run with something of everything. */
export const smallRun: RunRecord = {
  format: 'usher-bench/1',
  title: 'Usher 0.1.0 beside its peers',
  startedAt: '2026-01-02T03:04:05.678Z',
  seconds: 95.4,
  complete: false,
  command: "usher bench --only 'requests,latency' --rounds 3",
  machine: {
    cpus: 2,
    model: 'Some CPU',
    kernel: 'Linux 6.1.0',
    node: 'v20.18.0',
    memoryBytes: 8e9,
  },
  versions: { usher: '0.1.0', haproxy: '2.6.12' },
  setting: [
    ['Topology', 'a client, a node for each target and two pods'],
    ['Rounds', '3 of 1.5 s for each target, by turns; medians'],
  ],
  targets: [
    { name: 'direct', title: 'no proxy', kind: 'direct', command: '', config: '' },
    {
      name: 'haproxy',
      title: 'HAProxy (mode tcp)',
      kind: 'peer',
      command: 'haproxy -f haproxy.cfg',
      config: 'listen http\n  mode tcp\n# ``` is no end\n',
    },
    {
      name: 'usher',
      title: 'usher sidecar',
      kind: 'usher',
      command: 'usher sidecar --route <routes>',
      config: '',
    },
  ],
  leftOut: [{ name: 'nginx', why: 'nginx is not installed' }],
  yardsticks: ['direct', 'haproxy'],
  scenarios: [requests, latency, idle],
}
