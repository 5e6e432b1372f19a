import type { ServiceCIDR } from '../../model/service.ts'
import { parseCidr } from '../../util/cidr.ts'
import { canonicalCidrs, cidrFaults } from './object-ip.ts'
import { decodeObject, type Kind, type Decoded } from './decode-object.ts'
import { list, object, text } from './fields.ts'
import type { Fault } from './problem.ts'

const field = 'spec.cidrs'

const shape = object({ spec: object({ cidrs: list(text) }) })

const kind: Kind<typeof shape, ServiceCIDR> = {
  kind: 'ServiceCIDR',
  namespaced: false,
  ignored: () => '',
  shape,
  faults: ({ spec: { cidrs } }) => [...cidrFaults(field, cidrs), ...familyFaults(cidrs)],
  build: ({ spec: { cidrs } }, { name }) => ({ name, cidrs: canonicalCidrs(cidrs) }),
}

/** A networking.k8s.io/v1 ServiceCIDR, or one of v1beta1, which looks the same (KEP-1880). */
export const decodeServiceCIDR = (raw: unknown): Decoded<ServiceCIDR> =>
  decodeObject(kind, raw)

const familyFaults = (cidrs: readonly string[]): Fault[] => {
  const families = canonicalCidrs(cidrs).map(cidr => parseCidr(cidr)?.family)
  const twice = families.find((family, i) => family && families.indexOf(family) !== i)
  if (twice === undefined) return []
  return [{ field, message: `holds more than one ${twice} CIDR; give one at most` }]
}
