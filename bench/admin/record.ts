import { quantile } from '../control/figures.ts'
import { lower, percentiles } from '../control/metrics.ts'
import type { ControlOptions } from '../control/options.ts'
import { usherName } from '../control/record.ts'
import type { Outcome, Sample, ScenarioRecord } from '../record/record.ts'
import type { AdminFigures, Request } from './measure.ts'

/** Looks at what Usher does, one scenario for each way, and probes beside a crowd. */
export const adminScenarios = (
  { requests, healthzMs }: AdminFigures,
  { services }: Pick<ControlOptions, 'services'>,
): readonly ScenarioRecord[] => [
  ...[...requests].map(([name, found]) => requestScenario(name, found, services)),
  probeScenario('alone', '/healthz, alone', healthzMs.alone),
  probeScenario(
    'crowd',
    '/healthz beside 300 slow and 300 hostile clients',
    healthzMs.crowd,
  ),
]

const requestScenario = (
  name: string,
  found: readonly Request[],
  services: number,
): ScenarioRecord => ({
  name: `admin-${name.replaceAll(/[^a-z]+/g, '-').replace(/^-/, '')}`,
  group: 'Looking at it',
  title: `${name}, ${services.toLocaleString('en-US')} Services`,
  about: 'From the question until the answer is there as a whole; one after the other.',
  metrics: [
    lower('ms', 'Whole', 'ms', 0),
    lower('block', 'Longest block of the loop', 'ms', 1),
    lower('size', 'Size', 'MB', 2),
  ],
  notes: [],
  goals: [
    { target: usherName, metric: 'ms', atMost: 300 },
    { target: usherName, metric: 'block', atMost: 20 },
  ],
  outcomes: found.map(({ ms, bytes, longestBlockMs }, round) =>
    outcome({ ms, block: longestBlockMs, size: bytes / 1e6 }, round),
  ),
  leftOut: [],
})

const probeScenario = (
  name: string,
  title: string,
  tookMs: readonly number[],
): ScenarioRecord => {
  const answered = tookMs.filter(Number.isFinite)
  return {
    name: `admin-healthz-${name}`,
    group: 'Looking at it',
    title,
    about:
      'Each request has a connection of its own, from another address than the crowd has.',
    metrics: [...percentiles, lower('failed', 'Without an answer', '', 0)],
    notes: [],
    goals: [
      { target: usherName, metric: 'p99', atMost: 50 },
      { target: usherName, metric: 'failed', atMost: 0 },
    ],
    outcomes: [
      outcome(
        {
          p99: quantile(answered, 0.99) ?? Infinity,
          p50: quantile(answered, 0.5) ?? Infinity,
          max: Math.max(0, ...answered),
          failed: tookMs.length - answered.length,
        },
        0,
      ),
    ],
    leftOut: [],
  }
}

const outcome = (figures: Sample['figures'], round: number): Outcome => ({
  target: usherName,
  round,
  sample: { figures, errors: {} },
})
