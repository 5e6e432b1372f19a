import { type Child, benchProgram, startChild } from '../process/child.ts'
import { joining, makeCgroup, removeCgroup, cgroupProblem } from '../process/cgroup.ts'
import { messageOf } from '../measure.ts'
import type { ChangesDone, DeadDone, FirstDone, LedQuestion } from './protocol.ts'

export interface LedFigures {
  /** One of each process: programs and tables are made once. */
  readonly first: readonly FirstDone[]
  readonly changes: readonly ChangesDone[]
  readonly dead: readonly DeadDone[]
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

const rounds = 5
const connects = 10_000
const answerWithinMs = 300_000

/** From snapshots to what connects see, in a cgroup of the bench's own. Ends early on `signal`. */
export const measureLed = async (
  wish: LedWish,
  say: (what: string) => void,
  signal: AbortSignal,
): Promise<LedFigures> => {
  const figures = {
    first: [] as FirstDone[],
    changes: [] as ChangesDone[],
    dead: [] as DeadDone[],
  }
  const why = cgroupProblem()
  if (why !== '') return { ...figures, reason: why }
  try {
    for (let round = 0; round < rounds && !signal.aborted; round += 1) {
      say(`connect-time: ${wish.services} Services, round ${round + 1}/${rounds}`)
      const found = await roundOf(wish)
      figures.first.push(found.first)
      figures.changes.push(found.changes)
      figures.dead.push(found.dead)
    }
    return { ...figures, reason: '' }
  } catch (error) {
    return { ...figures, reason: signal.aborted ? '' : messageOf(error) }
  }
}

const roundOf = async ({ services, endpoints, changes }: LedWish) => {
  const cgroup = await makeCgroup()
  // Not `ip netns exec`, behind which /sys has no cgroups.
  const enter = [...joining(cgroup), 'unshare', '--net']
  const child = startChild(benchProgram('connect-time/led-main'), enter, [cgroup])
  try {
    return {
      first: await ask<FirstDone>(child, { do: 'first', services, endpoints }),
      changes: await ask<ChangesDone>(child, { do: 'changes', count: changes }),
      dead: await ask<DeadDone>(child, { do: 'dead', connects }),
    }
  } finally {
    await child.stop()
    await removeCgroup(cgroup)
  }
}

const ask = async <Done>(child: Child, question: LedQuestion): Promise<Done> =>
  (await child.ask(question, answerWithinMs)) as Done
