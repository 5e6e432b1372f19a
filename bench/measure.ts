import {
  type LeftOut,
  type Outcome,
  type ScenarioRecord,
  warmUpRound,
} from './record/record.ts'
import {
  type Candidate,
  groups,
  isMainlyFor,
  type Prepared,
  type Run,
  type Scenario,
} from './scenarios/scenario.ts'
import { NotOffered, type Stage } from './stage.ts'
import type { Target } from './targets/target.ts'

export interface Plan {
  readonly scenarios: readonly Scenario[]
  readonly targets: readonly Target[]
  readonly rounds: number
  /** Length of each measured window. */
  readonly seconds: number
}

/** What measuring is done with. */
export interface Measuring {
  readonly plan: Plan
  readonly stage: Pick<Stage, 'ready' | 'runOf' | 'release'>
  /** Is told what begins, and how long that is expected to take. */
  readonly progress: { step(what: string, expectedSeconds: number): void }
  /** Ends it early, with what there is. */
  readonly signal: AbortSignal
}

/** A warm-up is for compiled code and grown buffers: half a second is enough for both. */
const warmUpSeconds = (plan: Plan): number => Math.min(0.5, plan.seconds)

const roundsOf = ({ rounds }: Plan, { mostRounds = rounds }: Scenario): number =>
  Math.min(rounds, mostRounds)

/** A guess at how long the whole plan takes. */
export const expectedSeconds = (plan: Plan): number => {
  let sum = 0
  for (const scenario of plan.scenarios) {
    const measured = roundsOf(plan, scenario) * scenario.expectedSeconds(plan.seconds)
    const warmUp = scenario.fresh ? 0 : scenario.expectedSeconds(warmUpSeconds(plan))
    const targets = plan.targets.filter(
      target => isMainlyFor(target, scenario) && !scenario.leavesOut?.(target),
    )
    sum += (measured + warmUp) * targets.length
  }
  return sum
}

/**
 * The order of a round: each begins with another target, and every other goes backwards, so
 * that no target always comes after the same one and what that leaves behind (sockets in
 * TIME_WAIT, a warm or a throttled processor).
 */
export const orderOf = <T>(targets: readonly T[], round: number): readonly T[] => {
  const first = targets.length === 0 ? 0 : Math.max(0, round) % targets.length
  const turned = [...targets.slice(first), ...targets.slice(0, first)]
  return round % 2 === 0 ? turned : turned.toReversed()
}

/**
 * Runs one scenario against every target by turns (A B C, C B A, ...), after a warm-up of
 * each, so that slow and fast spells of the machine fall on all alike. A run that fails
 * is recorded and the rest goes on. Never rejects; on `signal` it ends with what there is.
 */
export const measureScenario = async (
  scenario: Scenario,
  measuring: Measuring,
): Promise<ScenarioRecord> => {
  const course = new Course(scenario, measuring)
  await course.run()
  const { name, group, title, about, metrics, goals = [] } = scenario
  const { notes, outcomes, leftOut } = course
  return {
    name,
    group: groups[group],
    title,
    about,
    metrics,
    goals,
    notes,
    outcomes,
    leftOut,
  }
}

/** One scenario on its way through its rounds. */
class Course {
  readonly notes: string[] = []
  readonly outcomes: Outcome[] = []
  readonly leftOut: LeftOut[] = []
  readonly #scenario: Scenario
  readonly #measuring: Measuring
  #targets: readonly Target[]

  constructor(scenario: Scenario, measuring: Measuring) {
    this.#scenario = scenario
    this.#measuring = measuring
    this.#targets = measuring.plan.targets.filter(target => {
      if (!isMainlyFor(target, scenario)) return false
      const why = scenario.leavesOut?.(target) ?? ''
      if (why !== '') this.leftOut.push({ name: target.name, why })
      return why === ''
    })
  }

  async run(): Promise<void> {
    const { plan, signal } = this.#measuring
    const why = this.#scenario.unsupportedReason?.() ?? ''
    if (why !== '') return void this.leftOut.push({ name: 'all of it', why })
    const prepared = await this.#prepare()
    if (prepared === undefined) return
    const rounds = roundsOf(plan, this.#scenario)
    for (let round = this.#firstRound; round < rounds; round += 1)
      for (const target of orderOf(this.#targets, round)) {
        if (signal.aborted) return
        if (!this.#targets.includes(target)) continue
        await this.#turn(target, round, prepared)
      }
  }

  /** Every run of a fresh target is cold. */
  get #firstRound(): number {
    return this.#scenario.fresh ? 0 : warmUpRound
  }

  async #prepare(): Promise<Prepared | undefined> {
    const { prepare } = this.#scenario
    if (prepare === undefined) return { notes: [] }
    try {
      const prepared = await prepare(wanted => this.#runsOf(wanted))
      this.notes.push(...prepared.notes)
      return prepared
    } catch (error) {
      this.leftOut.push({ name: 'all', why: messageOf(error), failed: true })
      return undefined
    }
  }

  async #runsOf(wanted: (target: Candidate) => boolean): Promise<readonly Run[]> {
    const { plan, stage, progress } = this.#measuring
    const runs: Run[] = []
    const takingPart = plan.targets.filter(target => isMainlyFor(target, this.#scenario))
    for (const target of takingPart.filter(wanted)) {
      progress.step(`${this.#scenario.name}, preparing, ${target.name}`, 0)
      try {
        await stage.ready(this.#scenario, target)
        runs.push(stage.runOf(target, plan.seconds))
      } catch (error) {
        this.#leaveOut(target, error)
      }
    }
    return runs
  }

  async #turn(target: Target, round: number, prepared: Prepared): Promise<void> {
    const { plan, stage, progress, signal } = this.#measuring
    const seconds = round === warmUpRound ? warmUpSeconds(plan) : plan.seconds
    const rounds = roundsOf(plan, this.#scenario)
    const when = round === warmUpRound ? 'warm-up' : `round ${round + 1}/${rounds}`
    const expected = this.#scenario.expectedSeconds(seconds)
    progress.step(`${this.#scenario.name}, ${when}, ${target.name}`, expected)
    try {
      await stage.ready(this.#scenario, target)
    } catch (error) {
      if (!signal.aborted) this.#leaveOut(target, error)
      return
    }
    try {
      const run = stage.runOf(target, seconds)
      const sample = await (run.site?.run(run) ?? this.#scenario.run(run, prepared))
      if (!signal.aborted) this.outcomes.push({ target: target.name, round, sample })
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof NotOffered) this.#leaveOut(target, error)
      else this.outcomes.push({ target: target.name, round, failure: messageOf(error) })
    } finally {
      // Servers that fail, and what looks after them, take time from the next one.
      if (this.#scenario.site !== undefined) await stage.release(target)
    }
  }

  /** For the rest of the scenario: what did not start once would cost its time each round. */
  #leaveOut(target: Target, error: unknown): void {
    this.#targets = this.#targets.filter(other => other !== target)
    const failed = error instanceof NotOffered ? {} : ({ failed: true } as const)
    this.leftOut.push({ name: target.name, why: messageOf(error), ...failed })
  }
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
