import type { ServicePort } from '../../../src/model/snapshot.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { service } from './world.ts'

const everything = (n: number, over: Partial<ServicePort> = {}): ServicePort =>
  service(`all-${n}`, n, ['10.1.0.4'], {
    vips: [
      clusterIp(`10.97.0.${n}`),
      { kind: 'NodePort', address: '0.0.0.0', port: 30_000 + n },
      { kind: 'LoadBalancerIP', address: `192.0.2.${n}`, port: 80 },
    ],
    sourceRanges: ['203.0.113.0/24'],
    externalTrafficPolicy: 'Local',
    external: { verdict: 'drop', endpoints: [] },
    ...over,
  })

const refused = (n: number): ServicePort => service(`none-${n}`, n, [])

/** So many that each of the shared chains is long. */
export const crowd: readonly ServicePort[] = Array.from({ length: 200 }, (_, n) => [
  everything(n),
  refused(n),
]).flat()

/** With the number `n`, another in its place; or none. */
const replaced = (
  all: readonly ServicePort[],
  at: number,
  ...by: readonly ServicePort[]
): readonly ServicePort[] => all.toSpliced(at, 1, ...by)

/** What few changes make of it: one comes, goes, is refused, swaps its VIPs with another. */
export const changedOf = (
  all: readonly ServicePort[],
): readonly (readonly ServicePort[])[] => {
  const without = replaced(all, 2 * 17)
  const more = [...without, service('new', 250, ['10.1.0.9'])]
  const swap = (n: number, by: number): ServicePort =>
    everything(n, { vips: [clusterIp(`10.97.0.${by}`)], sourceRanges: undefined })
  const single = [swap(3, 3), swap(4, 4)]
  const swapped = [swap(3, 4), swap(4, 3)]
  const base = more.filter(({ serviceName }) => !/^all-[34]$/.test(serviceName))
  return [
    without,
    more,
    replaced(
      more,
      more.findIndex(({ serviceName }) => serviceName === 'none-9'),
    ),
    [...base, ...single],
    [...base, ...swapped],
  ]
}
