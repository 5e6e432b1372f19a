import * as v from 'valibot'
import { parseCidr } from '../../util/cidr.ts'
import { canonicalCidrs, cidrFaults, familyFaults } from './object-ip.ts'
import { decoderOf } from './decode-object.ts'
import { object } from './fields.ts'
import { parts } from './part.ts'

const field = 'spec.cidrs'

const shape = object({ spec: object({ cidrs: parts(v.unknown()) }) })

/** A networking.k8s.io/v1 ServiceCIDR, or one of v1beta1, which looks the same (KEP-1880). */
export const decodeServiceCIDR = decoderOf({
  kind: 'ServiceCIDR',
  namespaced: false,
  shape,
  faults: ({ spec: { cidrs } }) => [
    ...cidrFaults(field, cidrs),
    ...familyFaults(field, cidrs.map(familyIn), 'CIDR'),
  ],
  unread: ({ spec: { cidrs } }) => canonicalCidrs(cidrs).length === 0,
  changes: ({ spec: { cidrs } }, { name }) => [
    { kind: 'ServiceCIDR', name, object: { name, cidrs: canonicalCidrs(cidrs) } },
  ],
})

const familyIn = (cidr: unknown) => parseCidr(canonicalCidrs([cidr])[0] ?? '')?.family
