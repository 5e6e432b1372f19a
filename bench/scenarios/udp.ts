import type { Goal } from '../record/record.ts'
import {
  costs,
  ledClients,
  nearThePipe,
  percent,
  rate,
  rateSample,
  windowAndSettling,
} from './metrics.ts'
import type { Scenario } from './scenario.ts'

/**
 * Datagrams on their way at any time, of all flows. Wherever they pile up they fit into a
 * default socket buffer (208 KiB, socket(7)), in which one of 1400 B takes 2304.
 */
const onTheirWay = (bytes: number): number => (bytes > 512 ? 64 : 128)

interface Traits extends Pick<Scenario, 'quick' | 'goals'> {
  /** Each datagram says where it goes. */
  readonly unconnected?: true
}

const udp = (
  bytes: number,
  flows: number,
  { unconnected, ...traits }: Traits = {},
): Scenario => ({
  name: `udp-${bytes}-${flows}${unconnected ? '-unconnected' : ''}`,
  group: 'udp',
  title: `echoes of ${bytes} B, ${flows} flows${unconnected ? ', by sockets that are not connected' : ''}`,
  about:
    'Datagrams there and back, so few on their way that none needs to be lost: what a relay costs for each.',
  metrics: [rate('echo/s', 'Echoes'), percent('lost', 'Lost'), ...costs('us/echo', 1)],
  expectedSeconds: windowAndSettling,
  run: async run => {
    const window = Math.max(1, onTheirWay(bytes) / flows)
    const to = run.to('udp')
    const answer = await run.load({
      kind: 'udp-echoes',
      to,
      flows,
      bytes,
      window,
      ...(unconnected && { unconnected }),
    })
    const lost = answer.errors['lost'] ?? 0
    return rateSample(
      answer,
      { perUnit: 1, cost: { of: 1, unitsPerSecond: 1e6 } },
      { lost: (lost / Math.max(1, lost + answer.done)) * 100 },
    )
  },
  ...traits,
})

const goals: readonly Goal[] = [
  ...nearThePipe,
  { target: 'usher-linux', metric: 'rate', to: 'nginx', atLeast: 1.3 },
  { target: 'usher-linux', metric: 'rate', to: 'usher-portable', atLeast: 2 },
]

export const udpScenarios: readonly Scenario[] = [
  udp(64, 4),
  udp(64, 16, { quick: true, goals }),
  udp(64, 16, { unconnected: true, goals: ledClients(0.9) }),
  udp(64, 64),
  udp(1400, 4),
  udp(1400, 64),
]
