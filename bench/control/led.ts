import type { LedCalls } from './led-main.ts'
import { count, quantile, type Say, scenarioOf, type Told } from './record.ts'
import { messageOf } from '../measure.ts'
import { cgroupProblem, joining, makeCgroup, removeCgroup } from '../process/cgroup.ts'
import { benchProgram, callsTo, startChild } from '../process/child.ts'
import { lower, type Sample, type ScenarioRecord } from '../record/record.ts'

/** One process: programs and tables are made once. */
export interface LedRound {
  readonly first: Awaited<ReturnType<LedCalls['first']>>
  readonly changes: Awaited<ReturnType<LedCalls['changes']>>
  readonly dead: Awaited<ReturnType<LedCalls['dead']>>
}

export interface LedFigures {
  readonly rounds: readonly LedRound[]
  /** Why there are no more; '' for none. */
  readonly reason: string
}

export interface LedWish {
  readonly services: number
  /** Of each Service. */
  readonly endpoints: number
  /** How often the endpoint of one more moves. */
  readonly changes: number
}

const mostRounds = 5
const connects = 10_000
const answerWithinMs = 300_000

/** From snapshots to what connects see, in a cgroup of the bench's own. Ends early on `signal`. */
export const measureLed = async (
  wish: LedWish,
  say: Say,
  signal: AbortSignal,
): Promise<LedFigures> => {
  const rounds: LedRound[] = []
  const why = cgroupProblem()
  if (why !== '') return { rounds, reason: why }
  try {
    for (let round = 1; round <= mostRounds && !signal.aborted; round += 1) {
      say(`connect-time: ${wish.services} Services, round ${round}/${mostRounds}`)
      rounds.push(await roundOf(wish))
    }
    return { rounds, reason: '' }
  } catch (error) {
    return { rounds, reason: signal.aborted ? '' : messageOf(error) }
  }
}

const roundOf = async ({ services, endpoints, changes }: LedWish): Promise<LedRound> => {
  const cgroup = await makeCgroup()
  // Not `ip netns exec`, behind which /sys has no cgroups.
  const enter = [...joining(cgroup), 'unshare', '--net']
  const child = startChild(benchProgram('control/led-main'), enter, [cgroup])
  const led = callsTo<LedCalls>(child, answerWithinMs)
  try {
    return {
      first: await led.first(services, endpoints),
      changes: await led.changes(changes),
      dead: await led.dead(connects),
    }
  } finally {
    await child.stop()
    await removeCgroup(cgroup)
  }
}

export const ledName = 'connect-time'

/** What each kind of figures is told as. */
type Kind = Omit<Told, 'group'> & {
  readonly name: keyof LedRound
  /** At 20,000 Services of two endpoints. */
  readonly limits: NonNullable<Told['limits']>
  readonly figures: (round: LedRound) => Sample['figures']
}

const at = (values: readonly number[], share: number): number =>
  quantile(values, share) ?? 0

const kinds: readonly Kind[] = [
  {
    name: 'first',
    title: 'first sync',
    about:
      'From a snapshot to programs that lead: they are checked by the kernel and attached, and tables are filled. The memory is what the kernel books on the tables.',
    metrics: [
      lower('cpu', 'CPU time', 'ms', 0),
      lower('wall', 'Whole', 'ms', 0),
      lower('memory', "The kernel's memory", 'MB', 1),
    ],
    limits: { cpu: 500, memory: 30 },
    figures: ({ first: { cpuMs: cpu, wallMs: wall, kernelBytes } }) => ({
      cpu,
      wall,
      memory: kernelBytes / 1e6,
    }),
  },
  {
    name: 'changes',
    title: 'one endpoint of one Service moved',
    about:
      'From a change in the model until a connect that began after the write has heard from the new endpoint; by then every connect goes there. Each round is of many changes, one after the other.',
    metrics: [
      lower('seen p99', 'Seen p99', 'ms', 2),
      lower('seen p50', 'Seen p50', 'ms', 2),
      lower('written p99', 'Written p99', 'ms', 2),
      lower('written p50', 'Written p50', 'ms', 2),
    ],
    limits: { 'seen p99': 5 },
    figures: ({ changes: { seenMs, writtenMs } }) => ({
      'seen p99': at(seenMs, 0.99),
      'seen p50': at(seenMs, 0.5),
      'written p99': at(writtenMs, 0.99),
      'written p50': at(writtenMs, 0.5),
    }),
  },
  {
    name: 'dead',
    title: 'one of two endpoints refuses',
    about:
      'Connects one after the other. Nobody retries for them; where one has failed the next ones are led past it for a second.',
    metrics: [
      lower('failed', 'Failed', '%', 2),
      lower('connects', 'Connects', '', 0),
      lower('seconds', 'Within', 's', 1),
    ],
    limits: { failed: 1 },
    figures: ({ dead }) => ({ ...dead, failed: (dead.failed / dead.connects) * 100 }),
  },
]

/** One number of Services: a scenario for each kind of figures. */
export const ledScenarios = (
  { services, endpoints }: LedWish,
  { rounds, reason }: LedFigures,
): readonly ScenarioRecord[] =>
  kinds.map(({ name, title, limits, figures, ...told }) =>
    scenarioOf(
      {
        ...told,
        name: `connect-time-${name}-${services}`,
        group: `Connect time, ${count(services)} Services`,
        title: `${title}, ${count(services)} Services of ${endpoints} endpoints`,
        limits: services === 20_000 && endpoints === 2 ? limits : {},
        leftOut:
          reason === '' || name !== 'first' ? [] : [{ name: ledName, why: reason }],
      },
      rounds.map(figures),
      ledName,
    ),
  )
