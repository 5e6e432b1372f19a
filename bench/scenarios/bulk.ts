import type { Goal } from '../record/record.ts'
import {
  costs,
  ledClients,
  nearThePipe,
  rate,
  rateSample,
  windowAndSettling,
} from './metrics.ts'
import type { Scenario } from './scenario.ts'

const ways = {
  download: 'backend to client',
  upload: 'client to backend',
  both: 'both ways at once',
} as const

const bytesPerGigabit = 1e9 / 8

const bulk = (
  way: keyof typeof ways,
  streams: number,
  traits: Pick<Scenario, 'quick' | 'goals'> = {},
): Scenario => ({
  name: `${way}-${streams}`,
  group: 'bulk',
  title: `${streams} stream${streams === 1 ? '' : 's'}${way === 'both' ? ' each way' : ''}, ${ways[way]}`,
  about: 'As many bytes as go through: what a relay costs for each byte.',
  metrics: [rate('Gbit/s', 'Throughput', 2), ...costs('CPU s/GB', 3)],
  expectedSeconds: windowAndSettling,
  run: async run => {
    const download = way === 'upload' ? {} : { download: run.to('source') }
    const upload = way === 'download' ? {} : { upload: run.to('sink') }
    return rateSample(await run.load({ kind: 'bulk', streams, ...download, ...upload }), {
      perUnit: bytesPerGigabit,
      cost: { of: 1e9, unitsPerSecond: 1 },
    })
  },
  ...traits,
})

/**
 * splice(2) moves pages where others copy bytes. HAProxy can do so, too, but does not as
 * it comes (haproxy-copy): how far Usher is ahead is given for both.
 */
const besideHaproxy = (haproxy: 'haproxy' | 'haproxy-copy'): readonly Goal[] => [
  { target: 'usher-linux', metric: 'rate', to: haproxy, atLeast: 1.6 },
  { target: 'usher-linux', metric: 'cost', to: haproxy, atMost: 0.6 },
]

const oneStream: readonly Goal[] = [
  ...nearThePipe,
  ...ledClients(0.98),
  ...besideHaproxy('haproxy-copy'),
  ...besideHaproxy('haproxy'),
  { target: 'usher-linux', metric: 'rate', to: 'nginx', atLeast: 1.2 },
]

export const bulkScenarios: readonly Scenario[] = [
  bulk('download', 1, { quick: true, goals: oneStream }),
  bulk('upload', 1, { goals: oneStream }),
  bulk('both', 1),
  bulk('download', 8),
  bulk('upload', 8),
  bulk('both', 8),
]
