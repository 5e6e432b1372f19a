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
import { nodeName, object, port, portName, protocol, text } from './fields.ts'
import type { Metadata } from './metadata.ts'
import { objectIp } from './object-ip.ts'
import { allLeftOut, decisive, parts, present } from './part.ts'
import type { Fault } from './problem.ts'

const addresses = decisive(parts(object({ ip: text, nodeName: v.nullish(nodeName) })), [])

const shape = object({
  subsets: decisive(
    parts(
      object({
        addresses,
        notReadyAddresses: addresses,
        ports: decisive(
          parts(
            object({
              name: decisive(portName, ''),
              protocol: decisive(protocol, 'TCP'),
              port,
            }),
          ),
          [],
        ),
      }),
    ),
    [],
  ),
})

type Subset = NonNullable<v.InferOutput<typeof shape>['subsets'][number]>
type Address = NonNullable<Subset['addresses'][number]>

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
    addressFaults(subsets, (field, ip) => {
      const message = endpointAddressFault(ip, undefined)
      return message === '' ? [] : [{ field, message }]
    }),
  invalid: ({ subsets }) => addressFaults(subsets, specialAddressFaults),
  unread: ({ subsets }) =>
    allLeftOut(subsets) ||
    allLeftOut(present(subsets).flatMap(({ ports }) => ports)) ||
    allLeftOut(present(subsets).flatMap(one => addressParts.flatMap(part => one[part]))),
  changes: ({ subsets }, metadata) =>
    subsets.flatMap((subset, i) =>
      subset === undefined
        ? []
        : ipFamilies.flatMap(family =>
            sliceOf(subset, i, family, metadata).map(sliceChange),
          ),
    ),
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

const sliceOf = (
  subset: Subset,
  i: number,
  family: IpFamily,
  { namespace, name, lastChangeTriggerTime }: Metadata,
): EndpointSlice[] => {
  const endpoints = [
    ...present(subset.addresses).map(given => endpointSpec(given, true)),
    ...present(subset.notReadyAddresses).map(given => endpointSpec(given, false)),
  ].filter(({ address }) => familyOf(address) === family)
  if (endpoints.length === 0) return []
  return [
    {
      namespace,
      name: `endpoints/${name}/${i}/${family}`,
      serviceName: name,
      family,
      endpoints,
      ports: slicePorts(subset.ports),
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
