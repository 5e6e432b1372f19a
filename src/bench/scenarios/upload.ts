import { startUpload } from '../load/bulk.ts'
import { measureLoad } from '../load/measure.ts'
import {
  bytesPerGigabit,
  millisecondsPerGigabyte,
  rateSample,
  type Scenario,
  speedGoal,
  windowAndSettling,
} from './scenario.ts'

export const upload: Scenario = {
  name: 'upload',
  title: 'one bulk stream client->backend',
  unit: 'Gbit/s',
  decimals: 2,
  costUnit: 'ms/GB',
  backend: 'sink',
  goal: speedGoal,
  expectedSeconds: windowAndSettling,
  run: async ({ port, seconds, pids }) =>
    rateSample(
      await measureLoad(startUpload(port), seconds, pids),
      bytesPerGigabit,
      millisecondsPerGigabyte,
    ),
}
