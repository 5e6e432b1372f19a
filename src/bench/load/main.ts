import { answerParent } from '../process/child.ts'
import { scenarios } from '../scenarios/all.ts'
import type { Run, Sample } from '../scenarios/scenario.ts'

export interface Question {
  readonly scenario: string
  readonly run: Run
}

/** The generator process: runs the scenario it is asked for and answers with a sample. */
answerParent(async (asked): Promise<Sample> => {
  const { scenario, run } = asked as Question
  const found = scenarios.find(({ name }) => name === scenario)
  if (found === undefined) throw new Error(`no scenario is called ${scenario}`)
  return found.run(run)
})
