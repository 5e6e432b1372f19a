import type { LoadAnswer, Percentiles, Traffic } from '../load/question.ts'
import { type Goal, higher, lower, type Metric, type Sample } from '../record/record.ts'
import type { Run, Scenario } from './scenario.ts'

export const milliseconds = (name: string, title: string, decimals = 2): Metric =>
  lower(name, title, 'ms', decimals)

export const percent = (name: string, title: string): Metric => lower(name, title, '%', 2)

/** The portable relay is to cost little beside the least that a relay in Node can be. */
export const nearThePipe: readonly Goal[] = [
  { target: 'usher-portable', metric: 'rate', to: 'pipe', atLeast: 0.9 },
]

/** The Linux relay, with one thread, is to keep up with proxies that have one thread. */
export const besideThePeers = (haproxy: number, nginx: number): readonly Goal[] => [
  { target: 'usher-linux', metric: 'rate', to: 'haproxy', atLeast: haproxy },
  { target: 'usher-linux', metric: 'rate', to: 'nginx', atLeast: nginx },
]

/** None of what these do fails. */
export const neverFails = (...targets: readonly string[]): readonly Goal[] =>
  targets.map(target => ({ target, metric: 'failed', atMost: 0 }))

/** Every kind of relay, whichever takes part. */
export const relays = ['usher', 'usher-linux', 'usher-portable'] as const

/** Clients that are led as they connect. */
const connectTimeTargets: readonly string[] = [
  'usher-connect-time',
  'usher-connect-time+local',
  'usher-connect-time+nftables',
]

/** They are held to what the direct path can do. */
export const ledClients = (
  atLeast: number,
  targets: readonly string[] = connectTimeTargets,
): readonly Goal[] =>
  targets.map(target => ({ target, metric: 'rate', to: 'direct', atLeast }))

/** How work done is counted. */
export interface Work {
  /** Of the figure that counts, `rate`; so many counted things make one of its unit. */
  readonly rate: readonly [unit: string, title: string, decimals?: number]
  readonly perUnit?: number
  /** CPU time for so many counted things, in so many units a second. */
  readonly cost: readonly [unit: string, decimals: number]
  readonly of: number
  readonly unitsPerSecond?: number
}

/**
 * As much traffic as goes through. CPU times are those of the proxy's processes, and of client,
 * backends and proxy together, on whom the kernel books what it does itself: only the second
 * tells what a kernel mode costs, whose process carries nothing.
 */
export const rateScenario = (
  { rate: [unit, title, decimals = 0], cost: [costUnit, costDecimals], ...work }: Work,
  {
    besides = [],
    last = [],
    traffic,
    further = () => ({}),
    ...own
  }: Omit<Scenario, 'metrics' | 'expectedSeconds' | 'run'> & {
    /** Metrics before those of CPU time and after them, and their figures. */
    readonly besides?: readonly Metric[]
    readonly last?: readonly Metric[]
    readonly further?: (answer: LoadAnswer) => Sample['figures']
    readonly traffic: (run: Run) => Traffic
  },
): Scenario => ({
  ...own,
  metrics: [
    higher('rate', title, unit, decimals),
    ...besides,
    lower('cost', 'CPU time of the proxy', costUnit, costDecimals),
    lower('cost of all', 'CPU time of all', costUnit, costDecimals),
    ...last,
  ],
  expectedSeconds: windowAndSettling,
  run: async run => {
    const answer = await run.load(traffic(run))
    const { done, seconds, proxyCpuSeconds, allCpuSeconds } = answer
    const { perUnit = 1, of, unitsPerSecond = 1 } = work
    const costOf = (name: string, cpuSeconds: number | undefined): Sample['figures'] =>
      cpuSeconds === undefined || done === 0
        ? {}
        : { [name]: (cpuSeconds * unitsPerSecond) / (done / of) }
    return sampleOf(answer, {
      rate: done / seconds / perUnit,
      ...costOf('cost', proxyCpuSeconds),
      ...costOf('cost of all', allCpuSeconds),
      ...further(answer),
    })
  },
})

export const sampleOf = (
  { cores, errors }: LoadAnswer,
  figures: Sample['figures'],
): Sample => ({ figures, ...(cores && { cores }), errors })

/** Figures of these names, as far as there are any; `times` is told in the name before each. */
export const timesOf = (
  found: Percentiles | undefined,
  names: readonly (keyof Percentiles)[],
  times = '',
): Sample['figures'] =>
  found === undefined
    ? {}
    : Object.fromEntries(names.map(name => [`${times}${name}`, found[name]]))

/** Share of what was tried and did not come to its end, in percent. */
export const failedShare = ({ done, tried = done }: LoadAnswer): number =>
  tried === 0 ? 0 : ((tried - done) / tried) * 100

/** The settling time before a window, and what starting and stopping takes. */
export const windowAndSettling = (window: number): number => window + 0.4
