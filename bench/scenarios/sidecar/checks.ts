import { setTimeout as sleep } from 'node:timers/promises'
import type { Metric } from '../../record/record.ts'
import { readUsage } from '../../process/usage.ts'
import type { CheckKind } from '../../services.ts'
import type { Run, Scenario } from '../scenario.ts'
import { serversAt } from './free-port.ts'
import { cared, sidecarScenario } from './site.ts'

const endpoints = 1000
/** First checks, and code that is compiled meanwhile, are not what goes on for days. */
const settleMs = 8000
/** Of windows of 2 s: each is checked so many times. */
const whole = 4

const share: Metric = {
  name: 'share',
  title: 'CPU of the proxy',
  unit: '% of a core',
  better: 'lower',
  decimals: 2,
}

const checks = (check: CheckKind): Scenario =>
  sidecarScenario({
    name: check === 'tcp' ? `checks-${endpoints}` : `checks-${endpoints}-${check}`,
    title: `${endpoints} endpoints checked by ${check}`,
    about:
      'What checks every 2 s take of a core, without any client. All endpoints are up.',
    metrics: [share],
    ...(check === 'tcp' && {
      goals: [{ target: 'sidecar', metric: 'share', atMost: 3 }],
    }),
    targets: ['sidecar', 'haproxy-checks'],
    expectedSeconds: window => 2 + settleMs / 1000 + whole * window,
    site: async lane => {
      const behaviour = check === 'postgres' ? 'postgres' : 'checked'
      const { endpoints: at, servers } = await serversAt(
        lane,
        endpoints,
        (all, [first]) =>
          all.listen(behaviour, { address: '0.0.0.0', port: first?.port ?? 0 }),
      )
      return { services: cared(at, { check }), run: measure, stop: servers.stop }
    },
  })

const measure = async (run: Run) => {
  await sleep(settleMs)
  const pids = run.running.pids()
  const before = readUsage(pids)?.cpuSeconds
  const startedAt = performance.now()
  await sleep(whole * run.seconds * 1000)
  const after = readUsage(pids)?.cpuSeconds
  if (before === undefined || after === undefined)
    throw new Error('CPU time is read from /proc: not here')
  const seconds = (performance.now() - startedAt) / 1000
  return { figures: { share: ((after - before) / seconds) * 100 }, errors: {} }
}

export const checkScenarios = (['tcp', 'http', 'redis', 'postgres'] as const).map(checks)
