import * as v from 'valibot'
import type { Change, EndpointSlice, EndpointSpec } from '../../model/service.ts'
import { familyOf, type IpFamily, ipFamilies } from '../../util/ip.ts'
import {
  isDnsSubdomain,
  addressFault,
  list,
  nodeName,
  object,
  portName,
  protocol,
  slicePortNumber,
  zoneName,
  port as portNumber,
  text,
} from './fields.ts'
import { decoderOf } from './decode-object.ts'
import { labels, type Metadata } from './metadata.ts'
import { objectIp } from './object-ip.ts'
import { allLeftOut, decisive, parts, present } from './part.ts'
import { specialRange } from '../../util/special-address.ts'
import { show, peek } from '../../util/printable.ts'
import { isNot } from '../../util/schema.ts'
import { fieldPath, type Fault, faultIf } from './problem.ts'

/** Shared: most endpoints have no hints, and there may be 100 000. */
const none: readonly string[] = []

const hints = (name: v.GenericSchema<string>) => v.nullish(parts(object({ name })))

const flag = v.boolean(issue => `${show(issue.input)} is not true or false`)

/** Of which the number may be left out, or not. */
const slicePorts = <T extends v.GenericSchema<unknown, number>>(port: T) =>
  decisive(
    parts(
      object({ name: decisive(portName, ''), protocol: decisive(protocol, 'TCP'), port }),
    ),
    [],
  )

const shape = object({
  addressType: v.nullish(
    v.picklist(
      ['IPv4', 'IPv6'],
      issue => `${show(issue.input)} is not IPv4, IPv6 or FQDN`,
    ),
  ),
  endpoints: decisive(
    parts(
      object({
        // Of which the first counts, and is looked at apart.
        addresses: list(v.unknown()),
        conditions: v.nullish(
          object({
            ready: v.nullish(flag),
            serving: v.nullish(flag),
            terminating: v.nullish(flag),
          }),
        ),
        nodeName: v.nullish(nodeName),
        zone: v.nullish(zoneName),
        hints: v.nullish(
          object({ forZones: hints(zoneName), forNodes: hints(nodeName) }),
        ),
      }),
    ),
    [],
  ),
  ports: slicePorts(decisive(slicePortNumber, 0)),
})

type Body = v.InferOutput<typeof shape>
type RawEndpoint = NonNullable<Body['endpoints'][number]>

/** A discovery.k8s.io/v1 EndpointSlice; one of type FQDN is ignored. */
export const decodeEndpointSlice = decoderOf({
  kind: 'EndpointSlice',
  namespaced: true,
  ignored: (metadata, raw) =>
    peek(raw, 'addressType') === 'FQDN'
      ? 'its addresses are host names (FQDN)'
      : ignoredAsHeadless(metadata),
  shape,
  faults: (body, metadata) => [
    ...labelFaults(metadata),
    ...(body.addressType ? [] : [{ field: 'addressType', message: 'is missing' }]),
    ...endpointFaults(body),
  ],
  invalid: ({ endpoints }) =>
    endpoints.flatMap((one, i) =>
      specialAddressFaults(`endpoints[${i}].addresses[0]`, one?.addresses[0]),
    ),
  unread: ({ endpoints, ports }) => allLeftOut(endpoints) || allLeftOut(ports),
  changes: (body, metadata) => [sliceChange(body, metadata)],
})

const sliceChange = (body: Body, metadata: Metadata): Change => {
  const { namespace, name, lastChangeTriggerTime } = metadata
  const slice: EndpointSlice = {
    namespace,
    name,
    serviceName: metadata.label(labels.serviceName) ?? '',
    family: familyIn(body),
    endpoints: present(body.endpoints).map(endpointSpec),
    ports: present(body.ports).filter(one => one.port !== 0),
    lastChangeTriggerTime,
  }
  return { kind: 'EndpointSlice', namespace, name, object: slice }
}

/** That of the first address where the slice does not say, as a later Kubernetes may call it otherwise. */
const familyIn = ({ addressType, endpoints }: Body): IpFamily =>
  addressType ??
  present(endpoints)
    .map(({ addresses }) => familyOf(ipOf(addresses[0])))
    .find(family => family !== undefined) ??
  'IPv4'

const ipOf = (given: unknown): string =>
  (typeof given === 'string' && objectIp(given)) || ''

const ignoredAsHeadless = (metadata: Metadata): string =>
  metadata.label(labels.headless) === undefined
    ? ''
    : `the label ${labels.headless} makes it headless`

const labelFaults = (metadata: Metadata): Fault[] => {
  const given = metadata.label(labels.serviceName)
  if (given !== undefined && isDnsSubdomain(given)) return []
  const message =
    given === undefined
      ? 'is missing; it names the Service that the endpoints belong to'
      : `${show(given)} is not the name of a Service`
  return [{ field: fieldPath(['metadata', 'labels', labels.serviceName]), message }]
}

const endpointFaults = (body: Body): Fault[] => {
  const family = familyIn(body)
  return body.endpoints.flatMap((one, i) => {
    const message = one ? endpointAddressFault(one.addresses[0], family) : ''
    return faultIf(`endpoints[${i}].addresses[0]`, message)
  })
}

/** Why an endpoint's address can't be used in a slice of this family; '' when it can. */
const endpointAddressFault = (given: unknown, family: IpFamily | undefined): string => {
  if (given === undefined) return 'is missing; an endpoint needs an address'
  const fault =
    typeof given === 'string' ? addressFault(given) : isNot('text')({ input: given })
  if (fault !== '' || family === undefined) return fault
  return familyOf(ipOf(given)) === family
    ? ''
    : `${show(given)} is not an ${family} address, although addressType says so`
}

/** Of an address that is sound; `right`: whose is wanted. */
export const specialAddressFaults = (
  field: string,
  given: unknown,
  right = 'a pod or a host',
): Fault[] => {
  const range = specialRange(ipOf(given))
  if (range === '') return []
  const message = `${show(given)} is ${range}, which is another host on each node; give the address of ${right}`
  return [{ field, message }]
}

// Only addresses[0] counts: the API calls the others fungible, and kube-proxy never
// looked at them. An absent condition reads as the API defines it.
const endpointSpec = (given: RawEndpoint): EndpointSpec => ({
  address: ipOf(given.addresses[0]),
  ready: given.conditions?.ready ?? true,
  serving: given.conditions?.serving ?? true,
  terminating: given.conditions?.terminating ?? false,
  nodeName: given.nodeName ?? '',
  zone: given.zone ?? '',
  zoneHints: hintNames(given.hints?.forZones),
  nodeHints: hintNames(given.hints?.forNodes),
})

const hintNames = (
  given: readonly ({ readonly name: string } | undefined)[] | null | undefined,
): readonly string[] => (given ? present(given).flatMap(({ name }) => name || []) : none)

const addresses = decisive(parts(object({ ip: text, nodeName: v.nullish(nodeName) })), [])

const endpointsShape = object({
  subsets: decisive(
    parts(
      object({
        addresses,
        notReadyAddresses: addresses,
        ports: slicePorts(portNumber),
      }),
    ),
    [],
  ),
})

type Subset = NonNullable<v.InferOutput<typeof endpointsShape>['subsets'][number]>

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
  shape: endpointsShape,
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
