import type { ServicePort, Target, Vip } from '../../../src/model/snapshot.ts'
import * as objects from '../../support/objects.ts'
import { servicePort } from '../../support/service-ports.ts'

/** Numbers by chance that are the same for the same seed: whole ones below `below`. */
export type Chance = (below: number) => number

/** A linear congruential generator, with the constants of Numerical Recipes. */
export const chanceOf = (seed: number): Chance => {
  let state = BigInt(seed)
  return below => {
    state = (state * 1_664_525n + 1_013_904_223n) % 2n ** 32n
    return Math.floor((Number(state) / 2 ** 32) * below)
  }
}

/** The nth Service, in one of its many shapes: no two have a VIP in common. */
export const randomService = (n: number, chance: Chance): ServicePort => {
  const family = n % 3 === 0 ? ('IPv6' as const) : ('IPv4' as const)
  const protocol = (['TCP', 'UDP', 'TCP', 'SCTP'] as const)[chance(12) % 4] ?? 'TCP'
  const is6 = family === 'IPv6'
  const addressOf = (net: number): string =>
    is6 ? `fd00:${net}::${n + 1}` : `10.${net}.0.${n + 1}`
  const kinds: readonly Vip[] = [
    { kind: 'ClusterIP', address: addressOf(96), port: 80 },
    { kind: 'ExternalIP', address: addressOf(97), port: 80 },
    { kind: 'LoadBalancerIP', address: addressOf(98), port: 80 },
    { kind: 'ExternalIP', address: addressOf(98), port: 81 },
    { kind: 'NodePort', address: is6 ? '::' : '0.0.0.0', port: 30_000 + n },
  ]
  const vips = kinds.filter((_, i) => i === 0 || chance(2) === 1)
  const endpoints = Array.from({ length: 6 }, (_, i) => ({
    ...objects.endpoint(is6 ? `fd01::${i + 1}` : `10.244.0.${i + 1}`),
    port: 8080,
  }))
  const target = (): Target => {
    const some = endpoints.filter(() => chance(2) === 1)
    const without = (['reject', 'drop'] as const)[chance(2)] ?? 'drop'
    return { verdict: some.length === 0 ? without : 'forward', endpoints: some }
  }
  const internal = target()
  return servicePort(`s${n}`, {
    protocol,
    family,
    vips,
    affinityMs: chance(3) === 0 ? 1000 * (1 + chance(3)) : 0,
    internal,
    externalFromNode: chance(2) === 1 ? internal : target(),
    sourceRanges: chance(5) === 0 ? ['10.0.0.0/8'] : undefined,
    ...(protocol !== 'SCTP' && chance(6) === 0 && { relayed: true as const }),
  })
}
