import { connections } from '../connections.ts'
import { costs, rate, windowAndSettling } from '../metrics.ts'
import type { Scenario } from '../scenario.ts'

/** What it costs to look a client up in long lists. */
export const lists: Scenario = {
  name: 'lists',
  group: 'sidecar',
  title: `${connections.title}; 100,000 ranges of clients are denied`,
  about:
    'New connections of clients that are looked up in a list of 100,000 ranges, beside those of a route without a list.',
  metrics: [rate('conn/s', 'Connections'), ...costs('CPU s/100k', 1)],
  goals: [{ target: 'sidecar-lists', metric: 'rate', to: 'sidecar', atLeast: 0.97 }],
  targets: ['sidecar-lists', 'sidecar'],
  expectedSeconds: windowAndSettling,
  run: connections.run,
}
