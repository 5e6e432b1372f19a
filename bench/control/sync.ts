import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Step, steps } from './cluster.ts'
import { count, percentileRows, quantile, roundsOf, type Say, told } from './record.ts'
import type { StreamWish } from './stream.ts'
import { kubeProxyName, nftablesName, type Part } from './subjects.ts'
import type { SyncCalls, Wanted } from './sync-main.ts'
import type { ToolCall } from './tool-calls.ts'
import { type Closers, closing } from './usher.ts'
import { messageOf } from '../measure.ts'
import { cgroupProblem, joining, makeCgroup, removeCgroup } from '../process/cgroup.ts'
import { benchProgram, callsTo, type Remote, startChild } from '../process/child.ts'
import { type Goal, lower, type Sample, type ScenarioRecord } from '../record/record.ts'

export interface SyncWish extends Wanted {
  /** How often the endpoints of one Service change, one after the other. */
  readonly changes: number
  readonly stream: StreamWish
}

type SyncDone = Awaited<ReturnType<SyncCalls['sync']>>
type StreamDone = Awaited<ReturnType<SyncCalls['stream']>>
type DeadDone = NonNullable<Awaited<ReturnType<SyncCalls['dead']>>>

/** What one sync took, beside what its tools take by themselves. Milliseconds. */
export interface SyncCost extends Omit<SyncDone, 'calls'> {
  /** The tools that were given rules, run once more on the same input and the same state. */
  readonly toolMs: number
  /** Lines that they were given. */
  readonly lines: number
  /** Tools run, those that only look among them. */
  readonly tools: number
  /** Of the tools that were given rules. */
  readonly peakRssBytes: number
}

export type SyncCosts = Readonly<Partial<Record<Step, readonly SyncCost[]>>>

export interface SyncFigures {
  readonly name: string
  /** Missing when it could not be measured, for `reason`. */
  readonly costs?: SyncCosts
  /** Missing when none was asked for. */
  readonly stream?: StreamDone
  /** Missing where nothing is led as it connects. */
  readonly dead?: DeadDone
  readonly reason: string
}

/** Of the steps that are not endpoint changes. */
const repetitions: Readonly<Record<Exclude<Step, 'endpoint'>, number>> = {
  first: 1,
  unchanged: 5,
  added: 10,
  removed: 10,
  full: 3,
}

/** To a Service of which one endpoint refuses. */
const connects = 10_000

/** What takes as long as this is not done again. */
const slowMs = 20_000

/** For one sync or one tool, or for a stream: more than any should take. */
const answerWithinMs = 4_200_000

/**
 * From snapshots to rules in the kernel, in a namespace of the bench's own; beside it the
 * same tools are given the same in a second one. Ends early on `signal`.
 */
export const measureSyncs = async (
  names: readonly string[],
  wish: SyncWish,
  say: Say,
  signal: AbortSignal,
): Promise<readonly SyncFigures[]> => {
  const figures: SyncFigures[] = []
  for (const name of names) {
    if (signal.aborted) break
    say(`${wish.part}: ${name}, ${wish.services} Services`)
    const found = await closing(closers => measureOne(name, wish, closers, signal)).catch(
      (error: unknown) => ({ name, reason: messageOf(error) }),
    )
    // A tool that Ctrl-C ended is no reason.
    if (!signal.aborted) figures.push(found)
  }
  return figures
}

const measureOne = async (
  name: string,
  { changes, stream, ...wanted }: SyncWish,
  closers: Closers,
  signal: AbortSignal,
): Promise<SyncFigures> => {
  const folder = await mkdtemp(join(tmpdir(), 'usher-bench-sync-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const cgroup = wanted.part === 'connect-time' ? await ownCgroup(closers) : ''
  const syncing = processInNamespace(closers, cgroup)
  const beside = processInNamespace(closers)
  await syncing.open(wanted, name, folder, cgroup)
  await beside.loopback()
  const costs: Partial<Record<Step, SyncCost[]>> = {}
  for (const [step, i] of courseOf(wanted, changes)) {
    signal.throwIfAborted()
    const found = (costs[step] ??= [])
    if (found.some(({ wallMs }) => wallMs > slowMs)) continue
    found.push(await costOf(await syncing.sync(step, i), beside))
  }
  const streamed = stream.seconds > 0 ? await syncing.stream(stream) : undefined
  const dead = await syncing.dead(connects)
  await syncing.close()
  const more = { ...(streamed && { stream: streamed }), ...(dead && { dead }) }
  return { name, costs, reason: '', ...more }
}

/** For what is led as it connects. */
const ownCgroup = async (closers: Closers): Promise<string> => {
  const why = cgroupProblem()
  if (why !== '') throw new Error(why)
  const cgroup = await makeCgroup()
  closers.push(() => removeCgroup(cgroup))
  return cgroup
}

/** In a network namespace of its own, which ends with it: that takes root. */
const processInNamespace = (closers: Closers, cgroup = ''): Remote<SyncCalls> => {
  // Not `ip netns exec`, behind which /sys has no cgroups.
  const enter = [...(cgroup === '' ? [] : joining(cgroup)), 'unshare', '--net']
  const child = startChild(benchProgram('control/sync-main'), enter)
  closers.push(() => child.stop())
  return callsTo<SyncCalls>(child, answerWithinMs)
}

/** Each step with the Service that it is about, in the order in which they are made. */
export const courseOf = (
  { part, services }: Pick<Wanted, 'part' | 'services'>,
  changes: number,
): readonly (readonly [Step, number])[] => {
  const course: (readonly [Step, number])[] = []
  for (const step of steps) {
    // Only a mode can be told that what is there is lost.
    if (step === 'removed' || (step === 'full' && part !== 'modes')) continue
    const times = step === 'endpoint' ? changes : repetitions[step]
    for (let n = 0; n < times; n += 1) {
      // Spread over all: the last rules of a table may cost more than the first.
      const i = Math.floor((n * services) / times)
      course.push([step, step === 'added' ? services + n : i])
      if (step === 'added') course.push(['removed', services + n])
    }
  }
  return course
}

const costOf = async (
  { calls, ...times }: SyncDone,
  beside: Remote<SyncCalls>,
): Promise<SyncCost> => {
  let [toolMs, lines, peakRssBytes] = [0, 0, 0]
  for (const call of calls) {
    if (onlyReads(call)) continue
    const alone = await beside.replay(call)
    if (call.input === '') continue
    toolMs += alone.ms
    peakRssBytes = Math.max(peakRssBytes, alone.peakRssBytes)
    lines += call.lines
    await rm(call.input)
  }
  return { ...times, toolMs, lines, peakRssBytes, tools: calls.length }
}

/** To run it once more would change nothing. */
const onlyReads = ({ command, args, input }: ToolCall): boolean =>
  input === '' &&
  (command === 'cat' ||
    command.endsWith('-save') ||
    args.some(arg => /^(?:--version|-S|-L\w*|list|save|show)$/.test(arg)))

const titles: Readonly<Record<Step, string>> = {
  first: 'first sync',
  unchanged: 'the periodic sync, when nothing has changed',
  endpoint: 'one endpoint of one Service moved',
  added: 'one Service added',
  removed: 'one Service removed',
  full: 'a full sync of what is there already, as after a flush',
}

/** A figure of all syncs of a kind: a quantile, or their mean. */
type SyncRow = readonly [
  name: string,
  title: string,
  unit: string,
  decimals: number,
  share: number | 'mean',
  of: (cost: SyncCost) => number | undefined,
]

const ms = (
  name: string,
  title: string,
  share: number | 'mean',
  of: SyncRow[5],
): SyncRow => [name, title, 'ms', 1, share, of]

const ownMs = ({ wallMs, waitedMs }: SyncCost): number => wallMs - waitedMs

const shared: readonly SyncRow[] = [
  ms('wall', 'Whole', 0.5, ({ wallMs }) => wallMs),
  ms('wall p99', 'Whole p99', 0.99, ({ wallMs }) => wallMs),
  ms('tool', 'The tools alone', 0.5, ({ toolMs }) => toolMs),
  // Means: of a single tool the kernel tells its CPU time to 10 ms.
  ms('cpu all', 'CPU time of all', 'mean', ({ cpuMs, toolCpuMs }) => cpuMs + toolCpuMs),
  ms('cpu', 'its own', 'mean', ({ cpuMs }) => cpuMs),
  ms('cpu tool', "its tools'", 'mean', ({ toolCpuMs }) => toolCpuMs),
  ['rss', "A tool's memory", 'MB', 0, 0.5, one => one.peakRssBytes / 1e6],
  ['lines', 'Lines restored', '', 0, 0.5, ({ lines }) => lines],
  ['tools', 'Tools run', '', 0, 0.5, ({ tools }) => tools],
  ms('seen', 'Seen by a connect', 0.5, ({ seenMs }) => seenMs),
  ms('seen p99', 'Seen p99', 0.99, ({ seenMs }) => seenMs),
  [
    'memory',
    "The kernel's memory",
    'MB',
    1,
    0.5,
    ({ kernelBytes }) => kernelBytes && kernelBytes / 1e6,
  ],
]

/** What the figure is that counts, and how it came about. */
const ofAll = {
  rows: [
    ms('beyond', 'Beyond the tools', 0.5, ({ wallMs, toolMs }) => wallMs - toolMs),
    ...shared,
  ],
  about:
    'From a snapshot to rules in the kernel. Beyond the tools is the whole time less what those that are given rules take alone: on the same input, in a second network namespace with the same rules, just after. CPU times are means of all syncs of the kind.',
}
const ofOne = {
  rows: [
    ms('own', "Usher's own", 0.5, ownMs),
    ms('own p99', "Usher's own p99", 0.99, ownMs),
    ...shared,
  ],
  about:
    "From a snapshot to rules in the kernel. Usher's own is the whole time less that for which it waited for tools that are given rules. What they take alone, on the same input and the same rules, is beside it.",
}

/** Of fewer syncs the 99th percentile is the slowest. */
const fewestForP99 = 50

/** One number of Services: a scenario for each kind of sync, with the subjects for targets. */
export const syncScenarios = (
  wish: SyncWish,
  figures: readonly SyncFigures[],
): readonly ScenarioRecord[] => [
  ...steps
    .map(step => stepScenario(wish, step, figures))
    .filter(({ outcomes, leftOut }) => outcomes.length + leftOut.length > 0),
  ...streamScenarios(wish, figures),
  ...figures.flatMap(one => deadScenario(wish, one)),
]

/** `10,000 Services of 2 endpoints`. */
const manyOf = ({ services, endpoints }: Wanted): string =>
  `${count(services)} Services of ${endpoints} endpoint${endpoints === 1 ? '' : 's'}`

const groups = {
  modes: 'Kernel modes',
  rules: 'Rules of captures',
  'connect-time': 'Connect time',
} as const

const groupOf = ({ part, services }: SyncWish): string =>
  `${groups[part]}, ${count(services)} Services`

const stepScenario = (
  wish: SyncWish,
  step: Step,
  figures: readonly SyncFigures[],
): ScenarioRecord => {
  const { rows, about } = step === 'first' || step === 'full' ? ofAll : ofOne
  const measured = figures.flatMap(({ name, costs }) =>
    costs === undefined ? [] : [{ name, costs: costs[step] ?? [] }],
  )
  return {
    name: `${wish.part}-${step}-${wish.services}`,
    group: groupOf(wish),
    title: `${titles[step]}, ${manyOf(wish)}`,
    about,
    metrics: rows.map(([name, title, unit, decimals]) =>
      lower(name, title, unit, decimals),
    ),
    notes: measured.flatMap(({ name, costs }) => worksOf(name, costs)),
    goals: measured.flatMap(({ name }) => goalsOf(name, step, wish)),
    outcomes: measured.flatMap(({ name, costs }) =>
      roundsOf(
        name,
        // Many changes are one round: their median and the 99th percentile are the figures.
        costs.length < fewestForP99
          ? costs.map(one => figuresOf(rows, [one], costs))
          : [figuresOf(rows, costs, costs)],
      ),
    ),
    // What can't do the first can't do the others: to say it once is enough.
    leftOut: figures.flatMap(({ name, reason: why }) =>
      step === 'first' && why !== '' ? [{ name, why }] : [],
    ),
  }
}

/** `mode nftables: 3 partial, 1 full.` */
const worksOf = (name: string, costs: readonly SyncCost[]): readonly string[] => {
  const works = costs.map(({ work }) => work)
  const kinds = [...new Set(works)].map(
    work => `${works.filter(one => one === work).length} ${work}`,
  )
  return works.length === 0 ? [] : [`${name}: ${kinds.join(', ')}.`]
}

/** Of a round; means are of all. */
const figuresOf = (
  rows: readonly SyncRow[],
  round: readonly SyncCost[],
  all: readonly SyncCost[],
): Sample['figures'] =>
  Object.fromEntries(
    rows.flatMap(([name, , , , share, of]) => {
      const values = (share === 'mean' ? all : round).flatMap(cost => of(cost) ?? [])
      const isTold = share !== 0.99 || round.length >= fewestForP99
      const value =
        share === 'mean'
          ? values.reduce((sum, one) => sum + one, 0) / values.length
          : quantile(values, share)
      return value === undefined || !isTold ? [] : [[name, value]]
    }),
  )

const streamRows = ({ appliedMs, wallMs, cpuMs, toolCpuMs, syncs }: StreamDone) =>
  [
    ...percentileRows(appliedMs),
    ['cores', 'CPU of all', 'cores', 3, (cpuMs + toolCpuMs) / wallMs],
    ['own cores', 'its own', 'cores', 3, cpuMs / wallMs],
    ['tool cores', "its tools'", 'cores', 3, toolCpuMs / wallMs],
    ['syncs', 'Syncs', '/s', 1, (syncs * 1000) / wallMs],
  ] as const

/** Endpoints that change all the time; none where that was not measured. */
const streamScenarios = (
  wish: SyncWish,
  figures: readonly SyncFigures[],
): readonly ScenarioRecord[] => {
  const streams = figures.flatMap(({ name, stream }) =>
    stream === undefined ? [] : [{ name, stream }],
  )
  if (streams.length === 0) return []
  const { seconds, perSecond, minSyncMs } = wish.stream
  const own = {
    name: `${wish.part}-stream-${wish.services}`,
    group: groupOf(wish),
    title: `${perSecond} endpoint changes a second for ${seconds} s, ${manyOf(wish)}`,
    about: `From each change to the end of the sync that wrote it. Changes that come meanwhile are taken together by the next one; it waits by what the one before cost, for ${minSyncMs} ms at most (--min-sync-period). CPU time is that of the process that syncs and of its tools, nft monitor among them.`,
    goals: streams.flatMap(({ name }) => goalsOf(name, 'stream', wish)),
  }
  const each = streams.map(({ name, stream }) => told(own, streamRows(stream), {}, name))
  const [first] = each
  return first === undefined
    ? []
    : [{ ...first, outcomes: each.flatMap(({ outcomes }) => outcomes) }]
}

/** Connects one after the other: what a failure costs, the next ones know. */
const deadScenario = (
  wish: SyncWish,
  { name, dead }: SyncFigures,
): readonly ScenarioRecord[] =>
  dead === undefined
    ? []
    : [
        told(
          {
            name: `${wish.part}-dead-${wish.services}`,
            group: groupOf(wish),
            title: `one of two endpoints refuses, ${manyOf(wish)}`,
            about:
              'Connects one after the other. Nobody retries for them; where one has failed the next ones are led past it for a second.',
            goals: goalsOf(name, 'dead', wish),
          },
          [
            ['failed', 'Failed', '%', 2, (dead.failed / dead.connects) * 100],
            ['connects', 'Connects', '', 0, dead.connects],
            ['seconds', 'Within', 's', 1, dead.seconds],
          ],
          {},
          name,
        ),
      ]

/**
 * What targets are held to at so many Services x endpoints, by the step and the metric. Milliseconds,
 * MB, cores, percent.
 */
interface Limits {
  readonly of: (part: Part, name: string) => boolean
  readonly at: string
  readonly most: Readonly<
    Partial<Record<Step | 'stream' | 'dead', Readonly<Record<string, number>>>>
  >
}

const modes: Limits['of'] = (part, name) => part === 'modes' && name !== kubeProxyName
const nftables: Limits['of'] = (_, name) => name === nftablesName
const rules =
  (begin: string): Limits['of'] =>
  (part, name) =>
    part === 'rules' && name.startsWith(begin)

const limits: readonly Limits[] = [
  {
    of: modes,
    at: '10000x2',
    most: {
      first: { beyond: 3000 },
      full: { beyond: 3000 },
      endpoint: { own: 60, 'own p99': 60 },
      added: { own: 60 },
    },
  },
  {
    of: nftables,
    at: '5000x2',
    most: { first: { 'cpu all': 600 }, full: { 'cpu all': 600 } },
  },
  {
    of: nftables,
    at: '5000x50',
    most: { first: { wall: 5000 }, full: { wall: 5000 } },
  },
  // Four times a round, and that round: by the pace that users get.
  { of: nftables, at: '10000x2', most: { stream: { p99: 150, cores: 0.5 } } },
  {
    of: nftables,
    at: '20000x2',
    most: {
      first: { 'cpu all': 3000, rss: 150 },
      full: { 'cpu all': 3000, rss: 150 },
      endpoint: { wall: 30 },
    },
  },
  { of: rules('nftables'), at: '10000x1', most: { first: { wall: 2000 } } },
  { of: rules('iptables'), at: '10000x1', most: { first: { wall: 4000 } } },
  { of: rules(''), at: '10000x1', most: { added: { wall: 50 }, removed: { wall: 50 } } },
  {
    of: part => part === 'connect-time',
    at: '20000x2',
    most: {
      first: { cpu: 500, memory: 30 },
      endpoint: { 'seen p99': 5 },
      dead: { failed: 1 },
    },
  },
]

const goalsOf = (
  target: string,
  step: Step | 'stream' | 'dead',
  { part, services, endpoints }: SyncWish,
): readonly Goal[] =>
  limits
    .filter(({ of, at }) => of(part, target) && at === `${services}x${endpoints}`)
    .flatMap(({ most }) => Object.entries(most[step] ?? {}))
    .map(([metric, atMost]) => ({ target, metric, atMost }))
