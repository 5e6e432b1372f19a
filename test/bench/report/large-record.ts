import type {
  RunRecord,
  ScenarioRecord,
  TargetRecord,
} from '../../../bench/record/record.ts'
import { scenarios } from '../../../bench/scenarios/all.ts'

const rounds = 5

const target = (
  name: string,
  kind: TargetRecord['kind'],
  title: string,
  config = '',
): TargetRecord => ({
  name,
  kind,
  title,
  command:
    kind === 'direct'
      ? ''
      : `${name.replace(/-.*/, '')} --config /run/bench/${name}.conf`,
  config,
})

const targets: readonly TargetRecord[] = [
  target('direct', 'direct', 'no proxy: the client dials a backend itself'),
  target(
    'pipe',
    'floor',
    'a bare pipe of node:net: the least that a relay in Node can be',
  ),
  target(
    'usher',
    'usher',
    'portable relay, its own addresses',
    'mode: userspace\ncapture: none\n',
  ),
  target('usher-nftables', 'usher', 'portable relay, captured by nftables'),
  target('usher-iptables', 'usher', 'portable relay, captured by iptables'),
  target('usher-local', 'usher', 'portable relay, on the VIP itself'),
  target(
    'haproxy',
    'peer',
    'HAProxy, mode tcp',
    'global\n  nbthread 1\ndefaults\n  mode tcp\n  option redispatch\nlisten http\n  bind :8000\n  server a 10.1.0.2:80\n',
  ),
  target(
    'nginx',
    'peer',
    'nginx, stream',
    'stream {\n  server { listen 8000; proxy_pass http; }\n}\n',
  ),
]

/** Of what direct does, by target: roughly what was seen. */
const speeds: Readonly<Record<string, number>> = {
  direct: 1,
  pipe: 0.36,
  usher: 0.35,
  'usher-nftables': 0.34,
  'usher-iptables': 0.33,
  'usher-local': 0.35,
  haproxy: 0.56,
  nginx: 0.47,
}

/** The direct path's figure by a metric's unit. */
const direct: Readonly<Record<string, number>> = {
  'req/s': 90_000,
  'conn/s': 14_000,
  'Gbit/s': 14,
  'echo/s': 120_000,
  'us/req': 8,
  'CPU s/100k': 5,
  'CPU s/GB': 0.3,
  'us/echo': 6,
  'kB/conn': 4,
  MB: 40,
}

/** The same row of numbers every time. */
const noise = () => {
  let state = 7
  return (): number => {
    state = (state * 16_807) % 2_147_483_647
    return state / 2_147_483_647 - 0.5
  }
}

const figureOf = (name: string, unit: string, speed: number, random: number): number => {
  if (unit === '%') return speed === 1 || speed < 0.5 ? 0 : 1.7 + random
  const jitter = 1 + random * 0.12
  if (unit !== 'ms') {
    const base = direct[unit] ?? 10
    return unit.endsWith('/s') ? base * speed * jitter : (base / speed) * jitter
  }
  const rank =
    { p50: 0.2, p90: 0.4, p99: 1.3, p999: 4.5 }[name.split(' ').at(-1) ?? ''] ?? 1
  return (rank / speed) * jitter
}

/** A run as users will have them, made up: every scenario of the bench, with troubles. */
export const largeRecord = (): RunRecord => {
  const random = noise()
  return {
    format: 'usher-bench/1',
    title: 'Usher beside its peers',
    startedAt: '2026-11-21T09:30:12.000Z',
    seconds: 3725,
    complete: true,
    command: 'usher bench --rounds 5 --seconds 3',
    machine: {
      cpus: 2,
      model: 'Example CPU @ 2.50GHz',
      kernel: 'Linux 6.1.0-28-amd64',
      node: 'v20.19.2',
      memoryBytes: 8_243_535_872,
    },
    versions: {
      usher: '0.1.0',
      node: 'v20.19.2',
      haproxy: '2.6.12',
      nginx: '1.22.1',
      wrk: '4.1.0',
    },
    setting: [
      [
        'topology',
        'network namespaces joined by veth, a node of its own for each target',
      ],
      ['rounds', '5, by turns'],
      ['window', '3 s'],
      ['generator', 'wrk 4.1.0'],
    ],
    targets,
    leftOut: [{ name: 'ipvs', why: 'the kernel has no module ip_vs' }],
    yardsticks: ['direct', 'pipe', 'haproxy', 'nginx'],
    scenarios: scenarios.map(scenario => {
      const left = targets.flatMap(each => {
        const why = scenario.leavesOut?.(each) ?? ''
        return why === '' ? [] : [{ name: each.name, why }]
      })
      const outcomes = targets
        .filter(({ name }) => !left.some(each => each.name === name))
        .flatMap(each =>
          Array.from({ length: rounds + 1 }, (_, index) => ({
            target: each.name,
            round: index - 1,
            sample: {
              figures: Object.fromEntries(
                scenario.metrics.flatMap(({ name, unit }) =>
                  each.kind === 'direct' && name === 'cost'
                    ? []
                    : [[name, figureOf(name, unit, speeds[each.name] ?? 0.4, random())]],
                ),
              ),
              cores: {
                generator: 0.7 + random() * 0.3,
                backend: 0.4,
                ...(each.kind !== 'direct' && { proxy: 0.9 }),
                others: 0.02,
              },
              errors:
                scenario.name === 'connections' && each.name === 'usher-iptables'
                  ? { ECONNRESET: 12, 'answer <cut> & lost': 1 }
                  : {},
            },
          })),
        )
      const { name, group, title, about, metrics, goals = [] } = scenario
      return withFailures({
        name,
        group,
        title,
        about,
        metrics,
        goals,
        outcomes,
        notes:
          group === 'latency'
            ? [
                'Offered to all: 14,200 requests a second, 50 % of what the slowest proxy (usher-iptables) could do just before.',
              ]
            : [],
        leftOut: left,
      })
    }),
  }
}

/** nginx fails in one scenario altogether, and Usher once in another. */
const withFailures = (scenario: ScenarioRecord): ScenarioRecord => ({
  ...scenario,
  outcomes: scenario.outcomes.map(outcome => {
    const { target: name, round } = outcome
    if (scenario.name === 'requests-256-16k' && name === 'nginx')
      return {
        target: name,
        round,
        failure: 'nginx ended with code 1: "worker_connections <are> not enough"',
      }
    if (scenario.name === 'udp-1400-64' && name === 'usher' && round === 2)
      return { target: name, round, failure: 'no answer from the generator in 13 s' }
    return outcome
  }),
})

/** The same, interrupted after the first scenarios, in the midst of one. */
export const interruptedRecord = (): RunRecord => {
  const whole = largeRecord()
  const begun = whole.scenarios.slice(0, 4)
  return {
    ...whole,
    complete: false,
    seconds: 212,
    scenarios: begun.map((scenario, index) =>
      index < 3 ? scenario : cutShort(scenario),
    ),
  }
}

const cutShort = (scenario: ScenarioRecord): ScenarioRecord => ({
  ...scenario,
  outcomes: scenario.outcomes.filter(({ round }) => round < 1),
})
