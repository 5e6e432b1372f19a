import { printable, peek } from '../../util/printable.ts'
import type { Decode, DecodedObject } from './decode-object.ts'
import { decodeEndpoints, decodeEndpointSlice } from './endpoint-slice.ts'
import { decodeNode, decodeServiceCIDR } from './node.ts'
import { decodeService } from './service.ts'

export type DecodeResult =
  | DecodedObject
  /** `apps/v1 Deployment`: sound, and none of Usher's. */
  | { readonly skipped: string }
  /** Not an object of Kubernetes at all; what is missing. */
  | { readonly malformed: string }

/** By apiVersion and kind. */
const decoders: ReadonlyMap<string, Decode> = new Map([
  ['v1 Service', decodeService],
  ['discovery.k8s.io/v1 EndpointSlice', decodeEndpointSlice],
  ['v1 Endpoints', decodeEndpoints],
  ['v1 Node', decodeNode],
  ['networking.k8s.io/v1 ServiceCIDR', decodeServiceCIDR],
  ['networking.k8s.io/v1beta1 ServiceCIDR', decodeServiceCIDR],
])

/** Decodes any raw object; see `Decode`. */
export const decode = (raw: unknown, strict = false): DecodeResult => {
  const apiVersion = peek(raw, 'apiVersion')
  const kind = peek(raw, 'kind')
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    return { malformed: 'is not an object with apiVersion, kind and metadata' }
  if (typeof apiVersion !== 'string' || apiVersion === '')
    return {
      malformed:
        peek(raw, 'routes') === undefined
          ? 'has no apiVersion; give v1 or discovery.k8s.io/v1'
          : 'is a file of routes; give it to usher sidecar --config',
    }
  if (typeof kind !== 'string' || kind === '')
    return {
      malformed:
        'has no kind; give Service, EndpointSlice, Endpoints, Node, ServiceCIDR or List',
    }
  const decodeKind = decoders.get(`${apiVersion} ${kind}`)
  return (
    decodeKind?.(raw, strict) ?? {
      skipped: `${printable(apiVersion)} ${printable(kind)}`,
    }
  )
}
