import type { Goal } from '../record/record.ts'
import type { ModeWish } from './measure.ts'
import { kubeProxyName, nftablesName } from './proxiers.ts'
import type { Step } from './protocol.ts'

type Case = Pick<ModeWish, 'services' | 'endpoints'>
type Limit = readonly [metric: string, atMost: number]

/** Milliseconds, for each of Usher's modes at 10,000 Services of two endpoints. */
const ofAllModes: Readonly<Partial<Record<Step, readonly Limit[]>>> = {
  first: [['beyond', 3000]],
  full: [['beyond', 3000]],
  endpoint: [
    ['own', 60],
    ['own p99', 60],
  ],
  added: [['own', 60]],
}

/** Those of nftables mode, by Services x endpoints. Milliseconds, MB, cores. */
const ofNftables: Readonly<
  Record<string, Readonly<Partial<Record<Step | 'stream', readonly Limit[]>>>>
> = {
  '5000x2': { first: [['cpu all', 600]], full: [['cpu all', 600]] },
  '5000x50': { first: [['wall', 5000]], full: [['wall', 5000]] },
  '10000x2': {
    stream: [
      // Four times a round, and that round: by the pace that users get.
      ['p99', 150],
      ['cores', 0.5],
    ],
  },
  '20000x2': {
    first: [
      ['cpu all', 3000],
      ['rss', 150],
    ],
    full: [
      ['cpu all', 3000],
      ['rss', 150],
    ],
    endpoint: [['wall', 30]],
  },
}

/** What a target is held to. */
export const goalsOf = (
  target: string,
  step: Step | 'stream',
  { services, endpoints }: Case,
): readonly Goal[] => {
  const size = `${services}x${endpoints}`
  const limits = [
    ...(target !== kubeProxyName && size === '10000x2' && step !== 'stream'
      ? (ofAllModes[step] ?? [])
      : []),
    ...(target === nftablesName ? (ofNftables[size]?.[step] ?? []) : []),
  ]
  return limits.map(([metric, atMost]) => ({ target, metric, atMost }))
}
