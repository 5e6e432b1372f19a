import type { LoadAnswer } from '../load/question.ts'
import type { Goal, Metric, Sample } from '../record/record.ts'

/** Work done in a second. */
export const rate = (unit: string, title: string, decimals = 0): Metric => ({
  name: 'rate',
  title,
  unit,
  better: 'higher',
  decimals,
})

/**
 * CPU time for a piece of work: of the proxy's processes, and of client, backends and
 * proxy together, on whom the kernel books what it does itself. Only the second tells
 * what a kernel mode costs, whose process carries nothing.
 */
export const costs = (unit: string, decimals: number): readonly Metric[] => [
  { name: 'cost', title: 'CPU time of the proxy', unit, better: 'lower', decimals },
  { name: 'cost of all', title: 'CPU time of all', unit, better: 'lower', decimals },
]

/** Of the client, with what the kernel does in its name: all that a connect by itself costs. */
export const clientCost = (unit: string): Metric => ({
  name: 'cost of client',
  title: 'CPU time of the client',
  unit,
  better: 'lower',
  decimals: 1,
})

/** Microseconds for each piece of work; none where the system doesn't tell. */
export const clientCostOf = ({ cores, seconds, done }: LoadAnswer): Sample['figures'] =>
  cores?.generator === undefined || done === 0
    ? {}
    : { 'cost of client': (cores.generator * seconds * 1e6) / done }

export const milliseconds = (name: string, title: string, decimals = 2): Metric => ({
  name,
  title,
  unit: 'ms',
  better: 'lower',
  decimals,
})

export const percent = (name: string, title: string): Metric => ({
  name,
  title,
  unit: '%',
  better: 'lower',
  decimals: 2,
})

/** The portable relay is to cost little beside the least that a relay in Node can be. */
export const nearThePipe: readonly Goal[] = [
  { target: 'usher-portable', metric: 'rate', to: 'pipe', atLeast: 0.9 },
]

/** The Linux relay, with one thread, is to keep up with proxies that have one thread. */
export const besideThePeers = (haproxy: number, nginx: number): readonly Goal[] => [
  { target: 'usher-linux', metric: 'rate', to: 'haproxy', atLeast: haproxy },
  { target: 'usher-linux', metric: 'rate', to: 'nginx', atLeast: nginx },
]

/** Every kind of Usher is held to it, whichever takes part. */
export const everyRelay = (goal: Omit<Goal, 'target'>): readonly Goal[] =>
  ['usher', 'usher-linux', 'usher-portable'].map(target =>
    Object.assign({ target }, goal),
  )

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

/** How an amount of work is counted. */
export interface Units {
  /** How many counted things make one of the rate's unit. */
  readonly perUnit: number
  /** How many counted things the cost is for, and its units in a second of CPU time. */
  readonly cost: { readonly of: number; readonly unitsPerSecond: number }
}

/** Figures `rate`, `cost` and `cost of all`, and any further ones. */
export const rateSample = (
  answer: LoadAnswer,
  { perUnit, cost: { of, unitsPerSecond } }: Units,
  further: Sample['figures'] = {},
): Sample => {
  const { done, seconds, proxyCpuSeconds, allCpuSeconds } = answer
  const costOf = (name: string, cpuSeconds: number | undefined): Sample['figures'] =>
    cpuSeconds === undefined || done === 0
      ? {}
      : { [name]: (cpuSeconds * unitsPerSecond) / (done / of) }
  return sampleOf(answer, {
    rate: done / seconds / perUnit,
    ...costOf('cost', proxyCpuSeconds),
    ...costOf('cost of all', allCpuSeconds),
    ...further,
  })
}

export const sampleOf = (
  { cores, errors }: LoadAnswer,
  figures: Sample['figures'],
): Sample => ({ figures, ...(cores && { cores }), errors })

/** Share of what was tried and did not come to its end, in percent. */
export const failedShare = ({ done, tried = done }: LoadAnswer): number =>
  tried === 0 ? 0 : ((tried - done) / tried) * 100

/** The settling time before a window, and what starting and stopping takes. */
export const windowAndSettling = (window: number): number => window + 0.4
