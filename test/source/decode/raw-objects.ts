import { decode } from '../../../src/source/decode/decode.ts'
import type { DecodedObject } from '../../../src/source/decode/decode-object.ts'

export type Fields = Record<string, unknown>

export const decoded = (raw: unknown): DecodedObject => {
  const object = decode(raw)
  if (!('key' in object)) throw new Error(`not decoded: ${JSON.stringify(object)}`)
  return object
}

export const service = (
  spec: Fields = {},
  metadata: Fields = {},
  more: Fields = {},
): Fields => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web', ...metadata },
  spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec },
  ...more,
})

export const slice = (body: Fields = {}, metadata: Fields = {}): Fields => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: 'web-1',
    labels: { 'kubernetes.io/service-name': 'web' },
    ...metadata,
  },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.0.0.1'] }],
  ports: [{ port: 8080 }],
  ...body,
})

/** The one object that was decoded, whatever its kind. */
export const objectOf = (raw: unknown): unknown => decoded(raw).changes[0]?.object

export const faultsOf = (raw: unknown): string[] =>
  decoded(raw).problems.map(({ field, message }) => `${field}: ${message}`)
