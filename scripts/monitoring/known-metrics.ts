import {
  checkTable,
  clusterTable,
  modeTable,
  orderTable,
  probeTable,
  requestTable,
  sourceTable,
  stateTable,
  syncTable,
  versionTable,
} from '../../src/observe/metrics-table.ts'
import { connectTimeTable } from '../../src/observe/connect-time-figures.ts'
import type { Metric } from '../../src/observe/exposition.ts'
import { healthTable, processTable } from '../../src/observe/process-metrics.ts'
import {
  accessLogMetrics,
  relayInfoMetrics,
  relayMetrics,
} from '../../src/observe/relay-metrics.ts'
import {
  captureTable,
  kernelTables,
  loopbackTable,
} from '../../src/observe/rule-metrics-table.ts'

type Row = Pick<Metric<unknown>, 'name' | 'type' | 'labels'>

/** Of every Usher in userspace mode, whatever it serves. */
const always: readonly Row[] = [
  ...relayMetrics,
  ...relayInfoMetrics,
  ...accessLogMetrics,
  ...captureTable,
  ...syncTable,
  ...clusterTable,
  ...orderTable,
  ...versionTable,
  ...modeTable,
  ...checkTable,
  ...stateTable,
  ...probeTable,
  ...sourceTable,
  ...processTable,
  ...healthTable,
]

/** Of other modes and sources, and of what is off unless asked for. */
const sometimes: readonly Row[] = [
  ...Object.values(kernelTables).flat(),
  ...loopbackTable,
  ...connectTimeTable,
  ...requestTable,
]

/** The rows of /metrics that rules and dashboard may name. */
export const knownMetrics: ReadonlyMap<string, Row> = new Map(
  [...sometimes, ...always].map(row => [row.name, row]),
)

/** Those that a scrape of userspace mode need not have. */
export const sometimesThere: ReadonlySet<string> = new Set(
  sometimes.map(({ name }) => name),
)
