import * as v from 'valibot'
import type {
  Change,
  EndpointSlice,
  EndpointSpec,
  Protocol,
  SlicePort,
} from '../../model/service.ts'
import { familyOf, type IpFamily } from '../../util/ip.ts'
import {
  isDnsSubdomain,
  addressFault,
  list,
  nodeName,
  object,
  portName,
  protocol,
  slicePortNumber,
  text,
} from './fields.ts'
import { decoderOf } from './decode-object.ts'
import { labels, type Metadata } from './metadata.ts'
import { peek } from '../../util/json.ts'
import { objectIp } from './object-ip.ts'
import { specialRange } from '../../util/special-address.ts'
import { show } from '../../util/printable.ts'
import { fieldPath, type Fault } from './problem.ts'

/** Shared: most endpoints have no hints, and there may be 100 000. */
const none: readonly string[] = []

const hintList = v.nullish(list(object({ name: text })))

const flag = v.boolean(issue => `${show(issue.input)} is not true or false`)

const shape = object({
  addressType: v.picklist(
    ['IPv4', 'IPv6'],
    issue => `${show(issue.input)} is not IPv4, IPv6 or FQDN`,
  ),
  endpoints: v.nullish(
    list(
      object({
        addresses: list(text),
        conditions: v.nullish(
          object({
            ready: v.nullish(flag),
            serving: v.nullish(flag),
            terminating: v.nullish(flag),
          }),
        ),
        nodeName: v.nullish(nodeName),
        zone: v.nullish(text),
        hints: v.nullish(object({ forZones: hintList, forNodes: hintList })),
      }),
    ),
  ),
  ports: v.nullish(
    list(
      object({
        name: v.nullish(portName),
        protocol: v.nullish(protocol),
        port: v.nullish(slicePortNumber),
      }),
    ),
  ),
})

type Body = v.InferOutput<typeof shape>
type RawEndpoint = NonNullable<Body['endpoints']>[number]

/** A discovery.k8s.io/v1 EndpointSlice; one of type FQDN is ignored. */
export const decodeEndpointSlice = decoderOf({
  kind: 'EndpointSlice',
  namespaced: true,
  ignored: (metadata, raw) =>
    peek(raw, 'addressType') === 'FQDN'
      ? 'its addresses are host names (FQDN)'
      : ignoredAsHeadless(metadata),
  shape,
  faults: (body, metadata) => [...labelFaults(metadata), ...endpointFaults(body)],
  invalid: ({ endpoints }) =>
    (endpoints ?? []).flatMap(({ addresses }, i) =>
      specialAddressFaults(`endpoints[${i}].addresses[0]`, addresses[0]),
    ),
  changes: (body, metadata) => [sliceChange(sliceOf(body, metadata))],
})

const sliceOf = (body: Body, metadata: Metadata): EndpointSlice => ({
  namespace: metadata.namespace,
  name: metadata.name,
  serviceName: metadata.label(labels.serviceName) ?? '',
  family: body.addressType,
  endpoints: (body.endpoints ?? []).map(endpointSpec),
  ports: slicePorts(body.ports ?? []),
  lastChangeTriggerTime: metadata.lastChangeTriggerTime,
})

export const sliceChange = (slice: EndpointSlice): Change => {
  const { namespace, name } = slice
  return { kind: 'EndpointSlice', namespace, name, object: slice }
}

export const ignoredAsHeadless = (metadata: Metadata): string =>
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

const endpointFaults = ({ endpoints, addressType }: Body): Fault[] => {
  const faults: Fault[] = []
  for (const [i, { addresses }] of (endpoints ?? []).entries()) {
    const message = endpointAddressFault(addresses[0], addressType)
    if (message !== '') faults.push({ field: `endpoints[${i}].addresses[0]`, message })
  }
  return faults
}

/** Why an endpoint's address can't be used in a slice of this family; '' when it can. */
export const endpointAddressFault = (
  given: string | undefined,
  family: IpFamily | undefined,
): string => {
  if (given === undefined) return 'is missing; an endpoint needs an address'
  const fault = addressFault(given)
  if (fault !== '' || family === undefined) return fault
  return familyOf(objectIp(given) ?? '') === family
    ? ''
    : `${show(given)} is not an ${family} address, as addressType says`
}

/** Of an endpoint's address that is sound. */
export const specialAddressFaults = (field: string, given = ''): Fault[] => {
  const range = specialRange(objectIp(given) ?? '')
  if (range === '') return []
  const message = `${show(given)} is ${range}, which is another host on each node; give the address of a pod or a host`
  return [{ field, message }]
}

// Only addresses[0] counts: the API calls the others fungible, and kube-proxy never
// looked at them. An absent condition reads as the API defines it.
const endpointSpec = (given: RawEndpoint): EndpointSpec => ({
  address: objectIp(given.addresses[0] ?? '') ?? '',
  ready: given.conditions?.ready ?? true,
  serving: given.conditions?.serving ?? true,
  terminating: given.conditions?.terminating ?? false,
  nodeName: given.nodeName ?? '',
  zone: zoneName(given.zone),
  zoneHints: given.hints?.forZones ? hintNames(given.hints.forZones) : none,
  nodeHints: given.hints?.forNodes ? hintNames(given.hints.forNodes) : none,
})

const hintNames = (hints: readonly { readonly name: string }[]): readonly string[] =>
  hints.map(({ name }) => zoneName(name)).filter(name => name !== '')

const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/

/**
 * A zone is compared with Nodes' labels and nothing else, so one that can't be a label's
 * value is as good as unknown. The same goes for hints.
 */
export const zoneName = (given: string | null | undefined): string =>
  given && labelValue.test(given) ? given : ''

interface RawPort {
  readonly name?: string | null | undefined
  readonly protocol?: Protocol | null | undefined
  readonly port?: number | null | undefined
}

/** Without ports that have no number. */
export const slicePorts = (given: readonly RawPort[]): SlicePort[] =>
  given.flatMap(({ name, protocol: spoken, port }) =>
    port ? [{ name: name ?? '', protocol: spoken ?? 'TCP', port }] : [],
  )
