import { setTimeout as sleep } from 'node:timers/promises'
import type { HostName } from '../../support/net/addresses.ts'
import type { Agents } from '../../support/net/cluster-agents.ts'
import type { Destination, LoadFailure } from '../../support/net/outcome.ts'
import { serviceNamed } from './services.ts'
import { families } from './objects.ts'
import { type VipName, vipOf } from './vips.ts'

/** What the clients met while something was done. */
export interface LoadResult {
  /** `result count` of each result, for people. */
  readonly text: string
  readonly answered: number
  readonly slowestMs: number
  readonly failures: readonly FailedConnection[]
}

export interface FailedConnection extends LoadFailure {
  readonly from: HostName
}

const clients = ['node', 'pod-1', 'pod-2', 'outside'] as const
const everybodys: readonly VipName[] = [
  'ClusterIP',
  'external IP',
  'load-balancer IP',
  'node port, first address',
]
const nodes: readonly VipName[] = [...everybodys, 'node port, loopback']

const destinations = (vips: readonly VipName[]): Destination[] => {
  const plain = serviceNamed('plain')
  return vips.flatMap(vip =>
    families.map(family =>
      Object.assign({ protocol: 'TCP' } as const, vipOf[vip](plain, family)),
    ),
  )
}

interface LoadOptions {
  readonly isDialled?: (vip: VipName) => boolean
  readonly timeoutMs?: number
}

/** For so long the clients go on before and after. */
const aroundMs = 700

/**
 * All clients open new connections all the time, over every kind of VIP, while `work` is
 * done. They wait for so long that a SYN that was dropped comes again several times: on a busy machine
 * a restart takes half a minute, and the SYN after that comes 35 s after the first.
 */
export const underLoad = async (
  agents: Agents,
  work: () => Promise<void>,
  { isDialled = () => true, timeoutMs = 75_000 }: LoadOptions = {},
): Promise<LoadResult> => {
  const ends = await Promise.all(
    clients.map(async from => {
      const vips = (from === 'node' ? nodes : everybodys).filter(isDialled)
      return { from, end: await agents[from].load(destinations(vips), timeoutMs) }
    }),
  )
  await sleep(aroundMs)
  let reports
  try {
    await work()
    await sleep(aroundMs)
  } finally {
    reports = await Promise.all(
      ends.map(async ({ from, end }) => Object.assign({ from }, await end())),
    )
  }
  const counts = new Map<string, number>()
  for (const report of reports)
    for (const [result, count] of Object.entries(report.counts))
      counts.set(result, (counts.get(result) ?? 0) + count)
  const slowestMs = Math.max(...reports.map(report => report.slowestMs))
  const words = [...counts].map(([result, count]) => `${result} ${count}`)
  return {
    text: `${words.join(', ')}; slowest answer ${slowestMs} ms`,
    answered: counts.get('answer') ?? 0,
    slowestMs,
    failures: reports.flatMap(({ from, failures }) =>
      failures.map(failure => Object.assign({ from }, failure)),
    ),
  }
}
