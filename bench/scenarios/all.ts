import { churn, retry } from './failure.ts'
import { postgresScenarios } from './postgres.ts'
import type { Scenario } from './scenario.ts'
import { earlyCloseScenarios, sidecarScenarios } from './sidecar.ts'
import { firstConnectionScenarios, trafficScenarios } from './traffic.ts'
import { upgrade } from './upgrade.ts'

/** In the order in which they are measured and reported. */
export const scenarios: readonly Scenario[] = [
  ...trafficScenarios,
  retry,
  churn,
  upgrade,
  ...firstConnectionScenarios,
  ...earlyCloseScenarios,
  ...postgresScenarios,
  ...sidecarScenarios,
]
