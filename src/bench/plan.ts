import type { BenchOptions } from './bench.ts'
import type { Plan } from './measure.ts'
import { scenarios } from './scenarios/all.ts'
import { chooseScenarios, chooseTargets } from './selection.ts'
import { allTargets } from './targets/all-targets.ts'
import { givenTarget } from './targets/given.ts'
import type { Target } from './targets/target.ts'
import { usherTarget } from './targets/usher.ts'

const rounds = { quick: 3, full: 5 } as const
/** wrk measures whole seconds. */
const quickSeconds = 1

/**
 * What to measure, as the flags say it; targets keep their files in `workDirectory`.
 * Throws UsageError for a name that nothing has.
 */
export const planOf = (options: BenchOptions, workDirectory: string): Plan => {
  const chosen = chooseScenarios(options, scenarios)
  return {
    scenarios: options.backend.length > 0 ? chosen.filter(s => s.httpOnly) : chosen,
    targets: chooseTargets(options, allTargets(workDirectory), [
      ...baselineOf(options, workDirectory),
      ...options.target.map(({ name, protocol, ...at }) =>
        givenTarget(name, protocol, at),
      ),
    ]),
    rounds: options.rounds || (options.quick ? rounds.quick : rounds.full),
    seconds: options.quick ? Math.min(quickSeconds, options.seconds) : options.seconds,
  }
}

const baselineOf = ({ baseline }: BenchOptions, workDir: string): readonly Target[] => {
  const command = baseline.split(/\s+/).filter(word => word !== '')
  if (command.length === 0) return []
  return [usherTarget({ name: 'baseline', capture: 'listen', workDir, command })]
}
