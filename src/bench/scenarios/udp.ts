import { measureLoad } from '../load/measure.ts'
import { startUdpEcho } from '../load/udp-echo.ts'
import {
  microsecondsEach,
  rateSample,
  type Scenario,
  speedGoal,
  windowAndSettling,
} from './scenario.ts'

const flows = 16
/** Datagrams on their way per flow: 128 in all fit into every default socket buffer. */
const window = 8

export const udp: Scenario = {
  name: 'udp',
  title: `UDP echoes, 64 B, ${flows} flows with ${window} datagrams on their way each`,
  unit: 'echo/s',
  decimals: 0,
  costUnit: 'us/echo',
  backend: 'udp-echo',
  goal: speedGoal,
  expectedSeconds: windowAndSettling,
  run: async ({ port, seconds, pids }) =>
    rateSample(
      await measureLoad(startUdpEcho(port, flows, window), seconds, pids),
      1,
      microsecondsEach,
    ),
}
