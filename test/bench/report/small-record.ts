import type { Outcome, RunRecord } from '../../../bench/record/record.ts'

/** Rounds of one target, after a warm-up that doesn't count. */
const runs = (target: string, name: string, figures: readonly number[]): Outcome[] => [
  { target, round: -1, sample: { figures: { [name]: 1 }, errors: {} } },
  ...figures.map((figure, round) => ({
    target,
    round,
    sample: {
      figures: { [name]: figure },
      cores: { generator: 0.5, backend: 0.25 },
      errors: {},
    },
  })),
]

/** Small enough to be read, with one of everything that a report has to cope with. */
export const smallRecord: RunRecord = {
  format: 'usher-bench/1',
  title: 'A small run',
  startedAt: '2026-01-02T03:04:05.000Z',
  seconds: 75,
  complete: true,
  command: "usher bench --only 'requests'",
  machine: {
    cpus: 2,
    model: 'Example CPU',
    kernel: 'Linux 6.1.0',
    node: 'v20.19.2',
    memoryBytes: 8 * 2 ** 30,
  },
  versions: { usher: '0.1.0', haproxy: '2.6.12' },
  setting: [['rounds', '3']],
  targets: [
    { name: 'direct', title: 'no proxy', kind: 'direct', command: '', config: '' },
    {
      name: 'usher',
      title: 'portable',
      kind: 'usher',
      command: 'usher run',
      config: 'a: 1\n',
    },
    {
      name: 'haproxy',
      title: 'HAProxy',
      kind: 'peer',
      command: 'haproxy -f x',
      config: '',
    },
    { name: 'a<b>', title: '"given" & so on', kind: 'given', command: '', config: '' },
  ],
  leftOut: [{ name: 'nginx', why: 'it is not installed' }],
  yardsticks: ['direct', 'haproxy'],
  scenarios: [
    {
      name: 'requests-1',
      group: 'requests',
      title: 'one connection',
      about: 'What a message costs.',
      metrics: [
        { name: 'rate', title: 'Requests', unit: 'req/s', better: 'higher', decimals: 0 },
      ],
      notes: ['A note & more.'],
      goals: [{ target: 'usher', metric: 'rate', to: 'direct', atLeast: 0.9 }],
      outcomes: [
        ...runs('direct', 'rate', [1000, 980, 1000]),
        ...runs('usher', 'rate', [500, 490, 510]),
        ...runs('haproxy', 'rate', [499, 495, 509]),
        { target: 'a<b>', round: -1, failure: '<script>alert(1)</script>' },
        { target: 'a<b>', round: 0, failure: '<script>alert(1)</script>' },
      ],
      leftOut: [],
    },
    {
      name: 'latency-50',
      group: 'latency',
      title: 'at half of capacity',
      about: 'How long an answer takes.',
      metrics: [
        { name: 'p99', title: '99 of 100', unit: 'ms', better: 'lower', decimals: 2 },
        { name: 'p50', title: 'Median', unit: 'ms', better: 'lower', decimals: 2 },
      ],
      notes: [],
      goals: [],
      outcomes: ['direct', 'usher', 'haproxy'].flatMap((target, index) =>
        [0, 1, 2].map(round => ({
          target,
          round,
          sample: {
            figures: { p50: 0.2 * (index + 1), p99: 3 - index + round / 10 },
            errors: target === 'usher' ? { '"><script>': 2 } : {},
          },
        })),
      ),
      leftOut: [{ name: 'a<b>', why: 'it is <given>' }],
    },
  ],
}
