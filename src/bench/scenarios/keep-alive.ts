import { startKeepAlive } from '../load/keep-alive.ts'
import { measureLoad } from '../load/measure.ts'
import {
  microsecondsEach,
  rateSample,
  type Scenario,
  speedGoal,
  windowAndSettling,
} from './scenario.ts'

const connections = 32

export const keepAlive: Scenario = {
  name: 'keep-alive',
  title: `requests over ${connections} kept connections, 64 B there and back`,
  unit: 'req/s',
  decimals: 0,
  costUnit: 'us/req',
  backend: 'echo',
  goal: speedGoal,
  expectedSeconds: windowAndSettling,
  run: async ({ port, seconds, pids }) =>
    rateSample(
      await measureLoad(startKeepAlive(port, connections), seconds, pids),
      1,
      microsecondsEach,
    ),
}
