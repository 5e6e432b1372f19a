import * as v from 'valibot'
import type { Change } from '../../model/service.ts'
import { familyOf, ipFamilies } from '../../util/ip.ts'
import { decoderOf } from './decode-object.ts'
import {
  endpointAddressFault,
  ignoredAsHeadless,
  sliceChange,
  slicePorts,
  specialAddressFaults,
} from './endpoint-slice.ts'
import { nodeName, object, port, text } from './fields.ts'
import type { Metadata } from './metadata.ts'
import { objectIp } from './object-ip.ts'
import { allLeftOut, decisive, parts, present } from './part.ts'
import { type Fault, faultIf } from './problem.ts'

const addresses = decisive(parts(object({ ip: text, nodeName: v.nullish(nodeName) })), [])

const shape = object({
  subsets: decisive(
    parts(
      object({
        addresses,
        notReadyAddresses: addresses,
        ports: slicePorts(port),
      }),
    ),
    [],
  ),
})

type Subset = NonNullable<v.InferOutput<typeof shape>['subsets'][number]>

const addressParts = ['addresses', 'notReadyAddresses'] as const

/**
 * A v1 Endpoints (deprecated since Kubernetes 1.33, KEP-4974, and still what people write
 * by hand) as EndpointSlices: one for each subset and family, named
 * `endpoints/<name>/<subset>/<family>`, which no slice of the API can be called.
 */
export const decodeEndpoints = decoderOf({
  kind: 'Endpoints',
  namespaced: true,
  ignored: ignoredAsHeadless,
  shape,
  faults: ({ subsets }) =>
    addressFaults(subsets, (field, ip) =>
      faultIf(field, endpointAddressFault(ip, undefined)),
    ),
  invalid: ({ subsets }) => addressFaults(subsets, specialAddressFaults),
  unread: ({ subsets }) =>
    allLeftOut(subsets) ||
    allLeftOut(present(subsets).flatMap(({ ports }) => ports)) ||
    allLeftOut(present(subsets).flatMap(one => addressParts.flatMap(part => one[part]))),
  changes: ({ subsets }, metadata) =>
    subsets.flatMap((subset, i) => (subset ? slicesOf(subset, i, metadata) : [])),
})

const addressFaults = (
  subsets: readonly (Subset | undefined)[],
  faultsOf: (field: string, ip: string) => readonly Fault[],
): Fault[] =>
  subsets.flatMap((subset, i) =>
    addressParts.flatMap(part =>
      (subset?.[part] ?? []).flatMap((one, j) =>
        one ? faultsOf(`subsets[${i}].${part}[${j}].ip`, one.ip) : [],
      ),
    ),
  )

const slicesOf = (subset: Subset, i: number, metadata: Metadata): Change[] =>
  ipFamilies.flatMap(addressType => {
    const endpoints = addressParts.flatMap(part =>
      present(subset[part])
        .filter(({ ip }) => familyOf(objectIp(ip) ?? '') === addressType)
        .map(({ ip, nodeName: node }) => {
          const ready = part === 'addresses'
          return {
            addresses: [ip],
            conditions: { ready, serving: ready },
            nodeName: node,
          }
        }),
    )
    if (endpoints.length === 0) return []
    const name = `endpoints/${metadata.name}/${i}/${addressType}`
    const ofSlice = { ...metadata, name, label: () => metadata.name }
    return sliceChange({ addressType, endpoints, ports: subset.ports }, ofSlice)
  })
