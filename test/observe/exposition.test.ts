import { readFileSync } from 'node:fs'
import t from 'tap'
import { bindMetrics, writeMetrics } from '../../src/observe/exposition.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import {
  clusterTable,
  modeTable,
  probeTable,
  requestTable,
  sliTable,
  sourceReadings,
  sourceTable,
  syncTable,
  versionTable,
} from '../../src/observe/metrics-table.ts'
import { captureTable, kernelTables } from '../../src/observe/rule-metrics-table.ts'
import { relayInfoMetrics } from '../../src/observe/relay-metrics.ts'
import {
  captureMetrics,
  figures,
  kernelMetrics,
  probeCounts,
  relayStats,
  syncMetrics,
} from './metrics-state.ts'

const golden = new URL('golden/metrics.txt', import.meta.url)

/** Values of the process, and of where it runs, are of one run. */
const withoutRun = (text: string): string =>
  text
    .replaceAll(/^((?:process|nodejs|usher_event_loop)_\S+) .*$/gm, '$1 #')
    .replace(/^kubernetes_build_info.*$/m, 'kubernetes_build_info #')

t.test('the text of all metrics is as scrapers know it, byte for byte', async t => {
  const { pending, snapshots, requests, version, relay, lastGoodAt } = figures
  const sync = syncMetrics()
  const probes = probeCounts()
  const metrics = createMetrics({
    stats: () => relayStats(),
    health: () => ({ healthy: true, sourceOk: false, version }),
    more: () => [
      ...bindMetrics(syncTable, sync),
      ...bindMetrics(clusterTable, { pending, changes: sync.changes, snapshots }),
      ...bindMetrics(requestTable, requests),
      ...bindMetrics(versionTable, version),
      ...bindMetrics(modeTable, { mode: 'iptables', fallBacks: 2 }),
      ...bindMetrics(kernelTables.iptables, kernelMetrics()),
      ...bindMetrics(captureTable, captureMetrics()),
      ...bindMetrics(relayInfoMetrics, relay),
      ...bindMetrics(probeTable, probes),
      ...bindMetrics(
        sourceTable,
        sourceReadings({ lastGoodAt }, figures.problems, figures.epoch),
      ),
    ],
  })
  t.teardown(() => metrics.close())
  const text = Buffer.concat(await metrics.scrape()).toString()
  const slis = Buffer.concat(await writeMetrics(sliTable, probes)).toString()
  t.equal(`${withoutRun(text)}\n${slis}`, readFileSync(golden, 'utf8'))
  t.match(text, /^kubernetes_build_info\{build_date="",compiler="node",.*\} 1$/m)
})
