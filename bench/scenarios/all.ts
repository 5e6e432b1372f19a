import { bulkScenarios } from './bulk.ts'
import { churn } from './churn.ts'
import { connections } from './connections.ts'
import { firstConnectionScenarios } from './first-connection.ts'
import { idle } from './idle.ts'
import { latencyScenarios } from './latency.ts'
import { manyServicesScenarios } from './many-services.ts'
import { mixed } from './mixed.ts'
import { requestScenarios } from './requests.ts'
import { retry } from './retry.ts'
import type { Scenario } from './scenario.ts'
import { earlyCloseScenarios } from './sidecar/early-close.ts'
import { accessLogScenarios } from './sidecar/access-log.ts'
import { capacityScenarios } from './sidecar/capacity.ts'
import { checkScenarios } from './sidecar/checks.ts'
import { postgresHangs, postgresRestarts } from './sidecar/postgres-fails.ts'
import { lists } from './sidecar/lists.ts'
import { primaryMoves } from './sidecar/primary-moves.ts'
import { reload } from './sidecar/reload.ts'
import { udpScenarios } from './udp.ts'

/** In the order in which they are measured and reported. */
export const scenarios: readonly Scenario[] = [
  ...requestScenarios,
  connections,
  ...manyServicesScenarios,
  ...bulkScenarios,
  ...latencyScenarios,
  mixed,
  idle,
  ...udpScenarios,
  retry,
  churn,
  ...firstConnectionScenarios,
  ...earlyCloseScenarios,
  postgresHangs,
  postgresRestarts,
  primaryMoves,
  reload,
  ...checkScenarios,
  ...capacityScenarios,
  lists,
  ...accessLogScenarios,
]
