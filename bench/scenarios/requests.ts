import {
  besideThePeers,
  costs,
  ledClients,
  nearThePipe,
  rate,
  rateSample,
  windowAndSettling,
} from './metrics.ts'
import type { Scenario } from './scenario.ts'

const requests = (
  connections: number,
  bytes: 64 | 16_384,
  traits: Pick<Scenario, 'quick' | 'goals'> = {},
): Scenario => ({
  name: `requests-${connections}${bytes === 64 ? '' : '-16k'}`,
  group: 'requests',
  title: `${connections} kept connection${connections === 1 ? '' : 's'}, answers of ${bytes === 64 ? '64 B' : '16 KiB'}`,
  about:
    'One request at a time on each connection, as fast as answers come: what a relay costs for each message.',
  metrics: [rate('req/s', 'Requests'), ...costs('us/req', 1)],
  httpOnly: true,
  expectedSeconds: windowAndSettling,
  run: async run =>
    rateSample(
      await run.load({
        kind: 'requests',
        generator: run.generator,
        to: run.to('http'),
        path: `/${bytes}`,
        connections,
      }),
      { perUnit: 1, cost: { of: 1, unitsPerSecond: 1e6 } },
    ),
  ...traits,
})

export const requestScenarios: readonly Scenario[] = [
  requests(1, 64),
  requests(32, 64, {
    quick: true,
    goals: [...nearThePipe, ...besideThePeers(1.05, 1), ...ledClients(0.98)],
  }),
  requests(256, 64),
  requests(1, 16_384),
  requests(32, 16_384),
  requests(256, 16_384),
]
