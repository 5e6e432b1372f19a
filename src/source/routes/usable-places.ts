import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { addressFault } from '../decode/fields.ts'
import { mostPlaces, type FoundPlaces, type Place } from './place.ts'

/**
 * Each place that can be dialled once, those of the first tiers in front, and not too many; whatever
 * their order in the answer.
 */
export const usable = (
  found: FoundPlaces,
): { places: readonly Place[]; faults: readonly string[] } => {
  const byKey = new Map<string, Place>()
  for (const place of found.places) {
    if (addressFault(place.address) !== '') continue
    const address = canonicalIp(place.address) ?? place.address
    const key = joinHostPort(address, place.port)
    const twin = byKey.get(key)
    if (twin === undefined || comesBefore(place, twin))
      byKey.set(key, { ...place, address })
  }
  if (byKey.size === 0) throw new Error('the answer has no usable address')
  // Sorted, so that a server that rotates its answers changes nothing.
  const sorted = [...byKey.keys()].toSorted().flatMap(key => byKey.get(key) ?? [])
  const places = sorted.toSorted((a, b) => a.tier - b.tier).slice(0, mostPlaces)
  const surplus = `the answer has ${byKey.size} addresses, of which ${mostPlaces} are taken`
  return {
    places,
    faults: byKey.size > mostPlaces ? [...found.faults, surplus] : found.faults,
  }
}

const comesBefore = (a: Place, b: Place): boolean =>
  a.tier === b.tier ? a.weight > b.weight : a.tier < b.tier
