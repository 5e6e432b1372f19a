import { familyOf, joinHostPort, type IpFamily } from '../../src/util/ip.ts'
import type { KubeObject } from '../support/api-server/kube-object.ts'
import {
  labelOf,
  labels,
  type RawEndpoints,
  type RawServicePort,
  type RawSlice,
} from './raw.ts'

/** Where the proxy is. */
export interface Place {
  readonly nodeName: string
  /** '' when nobody knows. */
  readonly zone: string
  readonly isGone?: boolean
}

/** One endpoint of one ServicePort. */
export interface Entry {
  /** `ip:port`. */
  readonly name: string
  readonly ready: boolean
  readonly serving: boolean
  readonly terminating: boolean
  readonly nodeName: string
  readonly zones: readonly string[]
  readonly nodes: readonly string[]
}

export type Verdict = 'forward' | 'reject' | 'drop'

export const entriesOfSlices = (
  objects: readonly KubeObject[],
  service: string,
  port: RawServicePort,
  family: IpFamily,
): Entry[] =>
  objects
    .filter(object => object.kind === 'EndpointSlice')
    .map(object => object as RawSlice)
    .filter(
      slice =>
        labelOf(slice, labels.serviceName) === service &&
        labelOf(slice, labels.headless) === undefined &&
        slice.addressType === family,
    )
    .flatMap(({ endpoints, ports }) =>
      ports.filter(same(port)).flatMap(({ port: number }) =>
        endpoints.map(({ addresses, conditions, nodeName = '', hints = {} }) => ({
          name: joinHostPort(addresses[0] ?? '', number),
          ready: conditions.ready ?? true,
          serving: conditions.serving ?? true,
          terminating: conditions.terminating ?? false,
          nodeName,
          zones: (hints.forZones ?? []).map(({ name }) => name),
          nodes: (hints.forNodes ?? []).map(({ name }) => name),
        })),
      ),
    )

export const entriesOfEndpoints = (
  objects: readonly KubeObject[],
  service: string,
  port: RawServicePort,
  family: IpFamily,
): Entry[] =>
  objects
    .filter(object => object.kind === 'Endpoints')
    .map(object => object as RawEndpoints)
    .filter(
      object =>
        object.metadata.name === service &&
        labelOf(object, labels.headless) === undefined,
    )
    .flatMap(({ subsets }) => subsets)
    .flatMap(({ addresses = [], notReadyAddresses = [], ports }) =>
      ports.filter(same(port)).flatMap(({ port: number }) =>
        [
          ...addresses.map(address => ({ ...address, ready: true })),
          ...notReadyAddresses.map(address => ({ ...address, ready: false })),
        ]
          .filter(({ ip }) => familyOf(ip) === family)
          .map(({ ip, nodeName, ready }) => ({
            name: joinHostPort(ip, number),
            ready,
            serving: ready,
            terminating: false,
            nodeName,
            zones: [],
            nodes: [],
          })),
      ),
    )

const same =
  ({ name = '', protocol }: RawServicePort) =>
  (port: RawServicePort): boolean =>
    (port.name ?? '') === name && port.protocol === protocol

/** Which of two slices' words about one `ip:port` counts. */
export const livelier = (a: Entry, b: Entry): boolean => rank(a) > rank(b)

const rank = ({ ready, serving, terminating }: Entry): number =>
  (terminating ? 0 : 4) + (ready ? 2 : 0) + (serving ? 1 : 0)

export const stateOf = ({ ready, terminating }: Entry): string =>
  ready ? 'ready' : terminating ? 'terminating' : 'not ready'

/** Who gets new connections under a traffic policy; by the book of kube-proxy 1.36. */
export const chosen = (
  entries: readonly Entry[],
  policy: string,
  place: Place,
): { readonly verdict: Verdict; readonly names: readonly string[] } => {
  const ready = entries.filter(entry => entry.ready)
  const fading = entries.filter(
    ({ ready: isReady, serving, terminating }) => !isReady && serving && terminating,
  )
  if (ready.length + fading.length === 0) return { verdict: 'reject', names: [] }
  const isLocal = ({ nodeName }: Entry): boolean => nodeName === place.nodeName
  const found =
    policy === 'Local'
      ? orElse(ready.filter(isLocal), fading.filter(isLocal))
      : orElse(hinted(ready, place), fading)
  return found.length === 0
    ? { verdict: 'drop', names: [] }
    : { verdict: 'forward', names: found.map(({ name }) => name) }
}

const orElse = <T>(first: readonly T[], second: readonly T[]): readonly T[] =>
  first.length > 0 ? first : second

const hinted = (ready: readonly Entry[], { nodeName, zone }: Place): readonly Entry[] => {
  const forNode = ready.filter(({ nodes }) => nodes.includes(nodeName))
  if (forNode.length > 0 && ready.every(({ nodes }) => nodes.length > 0)) return forNode
  const forZone = ready.filter(({ zones }) => zone !== '' && zones.includes(zone))
  if (forZone.length > 0 && ready.every(({ zones }) => zones.length > 0)) return forZone
  return ready
}
