import {
  besideThePeers,
  clientCost,
  clientCostOf,
  costs,
  ledClients,
  milliseconds,
  nearThePipe,
  rate,
  rateSample,
  windowAndSettling,
} from './metrics.ts'
import type { Scenario } from './scenario.ts'

/** At a time: more would only wait in queues. */
const parallel = 24

export const connections: Scenario = {
  name: 'connections',
  group: 'connections',
  title: `connect, one request, close; ${parallel} at a time`,
  about:
    'What a relay costs for each connection. The times of connecting are of a few connections beside the others, under the same load.',
  metrics: [
    rate('conn/s', 'Connections'),
    milliseconds('connect p50', 'Connect p50'),
    milliseconds('connect p99', 'Connect p99'),
    ...costs('CPU s/100k', 1),
    clientCost('us/conn'),
  ],
  goals: [
    ...nearThePipe,
    ...besideThePeers(1, 0.95),
    ...ledClients(0.95),
    {
      target: 'usher-mode-nftables',
      metric: 'rate',
      to: 'usher-mode-iptables',
      atLeast: 0.95,
    },
  ],
  quick: true,
  httpOnly: true,
  expectedSeconds: windowAndSettling,
  run: async run => {
    const answer = await run.load({
      kind: 'connections',
      generator: run.generator,
      to: run.to('http'),
      path: '/64',
      parallel,
    })
    const { connect } = answer
    return rateSample(
      answer,
      { perUnit: 1, cost: { of: 1e5, unitsPerSecond: 1 } },
      {
        ...clientCostOf(answer),
        ...(connect && { 'connect p50': connect.p50, 'connect p99': connect.p99 }),
      },
    )
  },
}
