import * as v from 'valibot'
import type { EndpointSlice, EndpointSpec } from '../../model/service.ts'
import { familyOf, ipFamilies, type IpFamily } from '../../util/ip.ts'
import { decoderOf } from './decode-object.ts'
import {
  endpointAddressFault,
  ignoredAsHeadless,
  sliceChange,
  slicePorts,
  specialAddressFaults,
} from './endpoint-slice.ts'
import { list, nodeName, object, port, portName, protocol, text } from './fields.ts'
import type { Metadata } from './metadata.ts'
import { objectIp } from './object-ip.ts'
import type { Fault } from './problem.ts'

const addresses = v.nullish(list(object({ ip: text, nodeName: v.nullish(nodeName) })))

const shape = object({
  subsets: v.nullish(
    list(
      object({
        addresses,
        notReadyAddresses: addresses,
        ports: v.nullish(
          list(
            object({
              name: v.nullish(portName),
              protocol: v.nullish(protocol),
              port,
            }),
          ),
        ),
      }),
    ),
  ),
})

type Subset = NonNullable<v.InferOutput<typeof shape>['subsets']>[number]
type Address = NonNullable<Subset['addresses']>[number]

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
  faults: ({ subsets }) => (subsets ?? []).flatMap(subsetFaults),
  invalid: ({ subsets }) =>
    (subsets ?? []).flatMap((subset, i) =>
      addressParts.flatMap(part =>
        (subset[part] ?? []).flatMap(({ ip }, j) =>
          specialAddressFaults(`subsets[${i}].${part}[${j}].ip`, ip),
        ),
      ),
    ),
  changes: ({ subsets }, metadata) =>
    (subsets ?? []).flatMap((subset, i) =>
      ipFamilies.flatMap(family => sliceOf(subset, i, family, metadata).map(sliceChange)),
    ),
})

const subsetFaults = (subset: Subset, i: number): Fault[] =>
  addressParts.flatMap(part =>
    (subset[part] ?? []).flatMap(({ ip }, j) => {
      const message = endpointAddressFault(ip, undefined)
      return message === '' ? [] : [{ field: `subsets[${i}].${part}[${j}].ip`, message }]
    }),
  )

const sliceOf = (
  subset: Subset,
  i: number,
  family: IpFamily,
  { namespace, name, lastChangeTriggerTime }: Metadata,
): EndpointSlice[] => {
  const endpoints = [
    ...(subset.addresses ?? []).map(given => endpointSpec(given, true)),
    ...(subset.notReadyAddresses ?? []).map(given => endpointSpec(given, false)),
  ].filter(({ address }) => familyOf(address) === family)
  if (endpoints.length === 0) return []
  return [
    {
      namespace,
      name: `endpoints/${name}/${i}/${family}`,
      serviceName: name,
      family,
      endpoints,
      ports: slicePorts(subset.ports ?? []),
      lastChangeTriggerTime,
    },
  ]
}

const endpointSpec = (given: Address, ready: boolean): EndpointSpec => ({
  address: objectIp(given.ip) ?? '',
  ready,
  serving: ready,
  terminating: false,
  nodeName: given.nodeName ?? '',
  zone: '',
  zoneHints: [],
  nodeHints: [],
})
