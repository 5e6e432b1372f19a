import type { Goal, Outcome, Sample, ScenarioRecord } from '../record/record.ts'
import { type Figures, type Phase, quantile } from './figures.ts'
import { lower, percentiles } from './metrics.ts'
import type { ControlOptions } from './options.ts'

/** The only target here. */
export const usherName = 'usher'

/** Complaints of Usher's beyond these say nothing new. */
const mostComplaints = 10

/** From nothing to everything served. */
export const startScenarios = (
  start: Figures['start'],
  { services, streamingLists }: ControlOptions,
): readonly ScenarioRecord[] => [
  scenarioOf('start', {
    group: 'Start',
    title: `from nothing to ${count(services)} Services served`,
    about:
      'From the start of the process until it listens for everything that the API server has.',
    metrics: [
      lower('serving', 'Start to serving', 's', 2),
      lower('cpu', 'CPU time', 's', 1),
    ],
    goals: [atMost('serving', 10)],
    notes: [`Lists ${streamingLists ? 'streamed' : 'in pages'}.`],
    outcomes: once(
      { serving: start.servingMs / 1000, cpu: start.cpuSeconds },
      { cores: { others: start.othersCores } },
    ),
  }),
  scenarioOf('start-memory', {
    group: 'Start',
    title: 'resident memory of both processes together',
    about: 'What they share (most of the program of Node) counts twice.',
    metrics: [
      lower('peak', 'Peak at the start', 'MB', 0),
      lower('settled', 'When left alone', 'MB', 0),
    ],
    goals: [atMost('peak', 400)],
    outcomes: once({
      peak: start.peakRssBytes / 1e6,
      settled: start.settledRssBytes / 1e6,
    }),
  }),
  scenarioOf('start-blocks', {
    group: 'Start',
    title: 'the longest time for which the event loop stood still',
    about: 'While Node loads the code nothing is served yet; after that /livez answers.',
    metrics: [
      lower('after', 'Afterwards', 'ms', 1),
      lower('loading', 'Loading the code', 'ms', 1),
    ],
    goals: [atMost('after', 50)],
    outcomes: once({ after: start.longestBlockMs, loading: start.loadingBlockMs }),
  }),
  livezScenario('start-livez', 'Start', start),
]

/** Endpoint changes while Usher serves. */
export const changeScenarios = (
  { churn, requests, peakRequestsPerSecond, complaints }: Figures,
  { changesPerSecond, seconds }: ControlOptions,
): readonly ScenarioRecord[] => [
  scenarioOf('change-to-sync', {
    group: 'Changes',
    title: `${count(changesPerSecond)} endpoint changes a second for ${seconds} s`,
    about:
      'From each change at the API server to the end of the sync that brought it into effect.',
    metrics: percentiles,
    goals: [atMost('p99', 50)],
    notes: [
      `${count(churn.appliedMs.length)} of ${count(churn.changes)} changes seen, taken in by ${count(churn.syncs)} syncs.`,
      `API requests: ${count(requests)}, at most ${peakRequestsPerSecond} within a second.`,
      ...complaints.slice(0, mostComplaints).map(text => `MIND usher said: ${text}`),
    ],
    outcomes: once(percentilesOf(churn.appliedMs), {
      cores: { proxy: churn.cpuShare, others: churn.othersCores },
      errors: lost(churn),
    }),
  }),
  scenarioOf('change-to-connection', {
    group: 'Changes',
    title: 'from a change to the first connection that went to the new endpoint',
    about: 'One Service whose endpoint moves about once a second; each move is a round.',
    metrics: [lower('ms', 'Change to connection', 'ms', 1)],
    outcomes: churn.probedMs.map(probed),
  }),
  scenarioOf('changes-memory', {
    group: 'Changes',
    title: 'resident memory of both processes together',
    metrics: [
      lower('end', 'RSS at the end', 'MB', 0),
      lower('peak', 'Peak since the start', 'MB', 0),
    ],
    outcomes: once({ end: churn.rssBytes / 1e6, peak: churn.peakRssBytes / 1e6 }),
  }),
  scenarioOf('changes-blocks', {
    group: 'Changes',
    title: 'the longest time for which the event loop stood still',
    metrics: [lower('longest', 'Longest block', 'ms', 1)],
    goals: [atMost('longest', 50)],
    outcomes: once({ longest: churn.longestBlockMs }),
  }),
  livezScenario('changes-livez', 'Changes', churn),
]

/** A tiny request takes as long as connections wait for the event loop. */
const livezScenario = (name: string, group: string, phase: Phase): ScenarioRecord =>
  scenarioOf(name, {
    group,
    title: 'how long a request for /livez takes',
    about: 'So long do new connections wait for the event loop, seen from outside.',
    metrics: percentiles,
    outcomes: once(percentilesOf(phase.livezMs)),
  })

const scenarioOf = (
  name: string,
  traits: Pick<ScenarioRecord, 'group' | 'title' | 'metrics' | 'outcomes'> &
    Partial<ScenarioRecord>,
): ScenarioRecord => ({ name, about: '', notes: [], goals: [], leftOut: [], ...traits })

/** No figures when there is nothing: then the goal is not measured, rather than reached. */
const percentilesOf = (values: readonly number[]): Sample['figures'] => {
  const [p50, p99, max] = [0.5, 0.99, 1].map(share => quantile(values, share))
  return p50 === undefined || p99 === undefined || max === undefined
    ? {}
    : { p50, p99, max }
}

const atMost = (metric: string, limit: number): Goal => ({
  target: usherName,
  metric,
  atMost: limit,
})

const once = (
  figures: Sample['figures'],
  more: Partial<Omit<Sample, 'figures'>> = {},
): readonly Outcome[] => [
  { target: usherName, round: 0, sample: { figures, errors: {}, ...more } },
]

const probed = (ms: number, round: number): Outcome =>
  Number.isFinite(ms)
    ? { target: usherName, round, sample: { figures: { ms }, errors: {} } }
    : {
        target: usherName,
        round,
        failure: 'no connection went to the new endpoint in time',
      }

const lost = ({ changes, appliedMs }: Figures['churn']): Sample['errors'] =>
  appliedMs.length < changes ? { 'change not seen': changes - appliedMs.length } : {}

const count = (n: number): string => n.toLocaleString('en-US')
