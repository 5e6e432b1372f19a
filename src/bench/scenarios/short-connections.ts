import { measureLoad } from '../load/measure.ts'
import { startShortConnections } from '../load/short-connections.ts'
import {
  microsecondsEach,
  rateSample,
  type Scenario,
  speedGoal,
  windowAndSettling,
} from './scenario.ts'

const parallel = 24

export const shortConnections: Scenario = {
  name: 'short',
  title: `connections of one 64 B request and response, ${parallel} at a time`,
  unit: 'conn/s',
  decimals: 0,
  costUnit: 'us/conn',
  backend: 'one-shot',
  goal: speedGoal,
  expectedSeconds: windowAndSettling,
  run: async ({ port, seconds, pids }) =>
    rateSample(
      await measureLoad(startShortConnections(port, parallel), seconds, pids),
      1,
      microsecondsEach,
    ),
}
