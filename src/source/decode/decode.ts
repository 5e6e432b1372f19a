import type { Change, EndpointSlice } from '../../model/service.ts'
import type { Problem } from '../../model/snapshot.ts'
import type { CreatedAt, Decoded } from './decode-object.ts'
import { decodeEndpointSlice } from './endpoint-slice.ts'
import { decodeEndpoints } from './endpoints.ts'
import { peek } from './metadata.ts'
import { decodeNode } from './node.ts'
import { printable } from '../../util/printable.ts'
import { decodeServiceCIDR } from './service-cidr.ts'
import { decodeService } from './service.ts'

/** A raw object of a kind that Usher knows. */
export interface DecodedObject {
  /** `Service default/web`: no two objects have the same; '' when it has no usable name. */
  readonly key: string
  /** The same, or as near to it as can be printed when the name is not usable. */
  readonly title: string
  /** What it puts into the world: nothing when it is refused or ignored. */
  readonly changes: readonly Change[]
  /** Beside changes: what was left out of them. */
  readonly problems: readonly Problem[]
  /** What no API server would have taken, although it can be served. */
  readonly unheardOf: readonly Problem[]
  /** Why a sound object is not served; '' when it is. */
  readonly ignored: string
}

export type DecodeResult =
  | DecodedObject
  /** `apps/v1 Deployment`: sound, and no business of Usher's. */
  | { readonly skipped: string }
  /** Not an object of Kubernetes at all; what it lacks. */
  | { readonly malformed: string }

/** Decodes any raw object by its `apiVersion` and `kind`. */
export const decode = (raw: unknown, createdAt: CreatedAt): DecodeResult => {
  const apiVersion = peek(raw, 'apiVersion')
  const kind = peek(raw, 'kind')
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    return { malformed: 'is not an object with apiVersion, kind and metadata' }
  if (typeof apiVersion !== 'string' || apiVersion === '')
    return { malformed: 'has no apiVersion; give v1 or discovery.k8s.io/v1' }
  if (typeof kind !== 'string' || kind === '')
    return {
      malformed:
        'has no kind; give Service, EndpointSlice, Endpoints, Node, ServiceCIDR or List',
    }
  switch (`${apiVersion} ${kind}`) {
    case 'v1 Service':
      return result(decodeService(raw, createdAt), object => [
        { kind: 'Service', namespace: object.namespace, name: object.name, object },
      ])
    case 'discovery.k8s.io/v1 EndpointSlice':
      return result(decodeEndpointSlice(raw), object => [sliceChange(object)])
    case 'v1 Endpoints':
      return result(decodeEndpoints(raw), slices => slices.map(sliceChange))
    case 'v1 Node':
      return result(decodeNode(raw), object => [
        { kind: 'Node', name: object.name, object },
      ])
    case 'networking.k8s.io/v1 ServiceCIDR':
    case 'networking.k8s.io/v1beta1 ServiceCIDR':
      return result(decodeServiceCIDR(raw), object => [
        { kind: 'ServiceCIDR', name: object.name, object },
      ])
    default:
      return { skipped: `${printable(apiVersion)} ${printable(kind)}` }
  }
}

const sliceChange = (object: EndpointSlice): Change => ({
  kind: 'EndpointSlice',
  namespace: object.namespace,
  name: object.name,
  object,
})

const result = <T>(
  { name, title, object, problems, unheardOf, ignored }: Decoded<T>,
  changesOf: (object: T) => readonly Change[],
): DecodedObject => ({
  key: name === '' ? '' : title,
  title,
  changes: object === undefined ? [] : changesOf(object),
  problems,
  unheardOf,
  ignored,
})
