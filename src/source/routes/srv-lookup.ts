import { setMaxListeners } from 'node:events'
import { type Clock, within } from '../../util/clock.ts'
import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { firstFew } from '../../util/printable.ts'
import { messageOf } from '../../util/usher-error.ts'
import type { SrvData } from './dns/dns-message.ts'
import {
  mostPlaces,
  unknownTtlMs,
  type FoundPlaces,
  type Lookup,
  type Place,
  type Resolve,
  type ResolveSrv,
  withUnknown,
} from './place.ts'
import { isHostName } from './route-address.ts'

/** Asked for at the same time, so no more than a process has descriptors for. */
const mostTargets = 64

/** One target for which no answer comes must not take the whole attempt. */
const targetMs = 4000

/**
 * By SRV records (RFC 2782): the hosts that they name, found as other hosts are. A host
 * that can't be found keeps the addresses that it had.
 */
export const srvLookup = (
  name: string,
  resolveSrv: ResolveSrv,
  resolve: Resolve,
  clock: Clock,
): Lookup => {
  let last: ReadonlyMap<string, readonly string[]> = new Map()

  const find = async (target: string, signal: AbortSignal): Promise<Target> => {
    try {
      const found = await within(clock, targetMs, resolve(target, signal))
      if (found === undefined) throw new Error(`no answer within ${targetMs / 1000} s`)
      const { ttlMs, faults = [], isPart } = found
      const addresses = withUnknown(found, last.get(target) ?? [])
      return { target, addresses, ttlMs, faults, isPart }
    } catch (error) {
      const addresses = last.get(target) ?? []
      return { target, addresses, ttlMs: undefined, faults: [messageOf(error)] }
    }
  }

  return async signal => {
    const answer = await resolveSrv(name, signal)
    const { records, faults } = sifted(name, answer.records)
    // Each target asks two questions that end with it.
    setMaxListeners(2 * mostTargets + 1, signal)
    const targets = [...new Set(records.map(({ target }) => target))]
    const found = await Promise.all(targets.map(target => find(target, signal)))
    last = new Map(found.map(({ target, addresses }) => [target, addresses]))
    const isPart = answer.isPart === true || found.some(one => one.isPart)
    const all = [...(answer.faults ?? []), ...faults]
    return { ...assembled(records, answer.ttlMs, found, all), ...(isPart && { isPart }) }
  }
}

interface Target {
  readonly target: string
  readonly addresses: readonly string[]
  readonly ttlMs: number | undefined
  readonly faults: readonly string[]
  readonly isPart?: boolean | undefined
}

/** The records of use, those to be tried first in front, and what is wrong with the others. */
const sifted = (
  name: string,
  given: readonly SrvData[],
): { records: readonly SrvData[]; faults: readonly string[] } => {
  const faults = new Set<string>()
  const sound = given.filter(record => {
    const fault = faultOf(name, record)
    if (fault !== '') faults.add(fault)
    return fault === ''
  })
  if (sound.length > mostPlaces)
    faults.add(`it has ${sound.length} records, of which ${mostPlaces} are taken`)
  const first = sound.toSorted((a, b) => a.priority - b.priority).slice(0, mostPlaces)
  const targets = new Set(first.map(({ target }) => target))
  if (targets.size > mostTargets)
    faults.add(`it names ${targets.size} hosts, of which ${mostTargets} are taken`)
  const taken = new Set([...targets].slice(0, mostTargets))
  return {
    records: first.filter(({ target }) => taken.has(target)),
    faults: [...faults],
  }
}

const faultOf = (name: string, { target, port }: SrvData): string => {
  if (target === '') return 'it says that there is no such service (the target is ".")'
  if (target === name.replace(/\.$/, '')) return 'its target is the name itself'
  if (!isHostName(target)) return `its target "${target}" is not a host name`
  if (port === 0) return `the port of its target ${target} is 0`
  return ''
}

/** Where all of a priority have the weight 0 there is no choice to be made by it (RFC 2782). */
const weightOf = ({ priority, weight }: SrvData, records: readonly SrvData[]): number => {
  const hasWeights = records.some(
    other => other.priority === priority && other.weight > 0,
  )
  return hasWeights ? weight : 1
}

const assembled = (
  records: readonly SrvData[],
  ttlMs: number,
  found: readonly Target[],
  before: readonly string[],
): FoundPlaces => {
  const addressesOf = new Map(found.map(each => [each.target, each.addresses]))
  const tiers = [...new Set(records.map(({ priority }) => priority))]
  const places = records.flatMap(record => {
    const { target, port, priority } = record
    const given = (addressesOf.get(target) ?? []).map(one => canonicalIp(one) ?? one)
    const addresses = [...new Set(given)].slice(0, mostPlaces)
    return addresses.map((address): Place => ({
      address,
      port,
      tier: tiers.indexOf(priority),
      // The host's share, however many addresses it has.
      weight: weightOf(record, records) / addresses.length,
    }))
  })
  const faults = [
    ...before,
    ...found.flatMap(each => each.faults.map(fault => `${each.target}: ${fault}`)),
  ]
  if (places.length === 0) throw new Error(firstFew(faults))
  const ttls = found.map(each => each.ttlMs ?? unknownTtlMs)
  return { places: summed(places), ttlMs: Math.min(ttlMs, ...ttls), faults }
}

/** Each record is chosen by its own weight (RFC 2782): an address that several lead to has them all. */
const summed = (places: readonly Place[]): readonly Place[] => {
  const byKey = new Map<string, Place>()
  for (const place of places) {
    const key = `${place.tier} ${joinHostPort(place.address, place.port)}`
    const weight = place.weight + (byKey.get(key)?.weight ?? 0)
    byKey.set(key, { ...place, weight })
  }
  return [...byKey.values()]
}
