import { parseCidr } from '../../util/cidr.ts'
import { canonicalCidrs, cidrFaults } from './object-ip.ts'
import { decoderOf } from './decode-object.ts'
import { list, object, text } from './fields.ts'
import type { Fault } from './problem.ts'

const field = 'spec.cidrs'

const shape = object({ spec: object({ cidrs: list(text) }) })

/** A networking.k8s.io/v1 ServiceCIDR, or one of v1beta1, which looks the same (KEP-1880). */
export const decodeServiceCIDR = decoderOf({
  kind: 'ServiceCIDR',
  namespaced: false,
  shape,
  faults: ({ spec: { cidrs } }) => [...cidrFaults(field, cidrs), ...familyFaults(cidrs)],
  changes: ({ spec: { cidrs } }, { name }) => [
    { kind: 'ServiceCIDR', name, object: { name, cidrs: canonicalCidrs(cidrs) } },
  ],
})

const familyFaults = (cidrs: readonly string[]): Fault[] => {
  const families = canonicalCidrs(cidrs).map(cidr => parseCidr(cidr)?.family)
  const twice = families.find((family, i) => family && families.indexOf(family) !== i)
  if (twice === undefined) return []
  return [{ field, message: `holds more than one ${twice} CIDR; give one at most` }]
}
