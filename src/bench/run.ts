import type { Progress } from './progress.ts'
import { type Outcome, type ScenarioResult, warmUpRound } from './results.ts'
import type { Scenario } from './scenarios/scenario.ts'
import type { Stage } from './stage.ts'
import type { Target } from './targets/target.ts'

export interface Plan {
  readonly scenarios: readonly Scenario[]
  readonly targets: readonly Target[]
  readonly rounds: number
  /** Length of each measured window. */
  readonly seconds: number
}

/** A warm-up is for compiled code and grown buffers: half a second is enough for both. */
const warmUpSeconds = (plan: Plan): number => Math.min(0.5, plan.seconds)

const targetsOf = (plan: Plan, scenario: Scenario): readonly Target[] =>
  plan.targets.filter(({ name }) => !(scenario.needsProxy && name === 'direct'))

/** A guess at how long the whole plan takes. */
export const expectedSeconds = (plan: Plan): number => {
  let sum = 0
  for (const scenario of plan.scenarios) {
    const measured = plan.rounds * scenario.expectedSeconds(plan.seconds)
    const warmUp = scenario.freshProxy ? 0 : scenario.expectedSeconds(warmUpSeconds(plan))
    sum += (measured + warmUp) * targetsOf(plan, scenario).length
  }
  return sum
}

/**
 * Runs one scenario against every target by turns (A B C, A B C, ...), after a warm-up of
 * each, so that slow and fast spells of the machine fall on all alike. A run that fails
 * is recorded and the rest goes on. Ends early, with what there is, on `signal`.
 */
export const runScenario = async (
  plan: Plan,
  scenario: Scenario,
  stage: Pick<Stage, 'run' | 'start'>,
  progress: Pick<Progress, 'step'>,
  signal: AbortSignal,
): Promise<ScenarioResult> => {
  const outcomes: Outcome[] = []
  const first = scenario.freshProxy ? 0 : warmUpRound
  for (let round = first; round < plan.rounds; round += 1) {
    const seconds = round === warmUpRound ? warmUpSeconds(plan) : plan.seconds
    const when = round === warmUpRound ? 'warm-up' : `round ${round + 1}/${plan.rounds}`
    for (const target of targetsOf(plan, scenario)) {
      progress.step(
        `${scenario.name}, ${when}, ${target.name}`,
        scenario.expectedSeconds(seconds),
      )
      const found = await runOnce(scenario, target, stage, seconds)
      if (signal.aborted) return { scenario, outcomes }
      outcomes.push({ target: target.name, round, ...found })
    }
  }
  return { scenario, outcomes }
}

const runOnce = async (
  scenario: Scenario,
  target: Target,
  stage: Pick<Stage, 'run' | 'start'>,
  seconds: number,
) => {
  try {
    if (scenario.freshProxy) await stage.start(target)
    return { sample: await stage.run(scenario, target, seconds) }
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error) }
  }
}
