import { startDownload } from '../load/bulk.ts'
import { measureLoad } from '../load/measure.ts'
import {
  bytesPerGigabit,
  millisecondsPerGigabyte,
  rateSample,
  type Scenario,
  speedGoal,
  windowAndSettling,
} from './scenario.ts'

export const download: Scenario = {
  name: 'download',
  title: 'one bulk stream backend->client',
  unit: 'Gbit/s',
  decimals: 2,
  costUnit: 'ms/GB',
  backend: 'source',
  goal: speedGoal,
  expectedSeconds: windowAndSettling,
  run: async ({ port, seconds, pids }) =>
    rateSample(
      await measureLoad(startDownload(port), seconds, pids),
      bytesPerGigabit,
      millisecondsPerGigabyte,
    ),
}
