import { isRecord, type KubeObject } from './kube-object.ts'
import type { Resource } from './resources.ts'

/** One version of an object: written as JSON once, however many read it. */
export interface Stored {
  readonly resource: Resource
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly version: number
  readonly labels: Readonly<Record<string, string>>
  /** Values of the fields that can be selected by. */
  readonly fields: Readonly<Record<string, string>>
  /** With kind and apiVersion first. */
  readonly json: string
}

export const keyOf = (namespace: string, name: string): string => `${namespace}/${name}`

export const store = (
  resource: Resource,
  object: KubeObject,
  version: number,
): Stored => {
  const { name, namespace = '', labels = {} } = object.metadata
  const { kind: _kind, apiVersion: _apiVersion, metadata: _metadata, ...rest } = object
  const { kind, apiVersion } = resource
  const metadata = { ...object.metadata, resourceVersion: String(version) }
  return {
    resource,
    key: keyOf(namespace, name),
    namespace,
    name,
    version,
    labels,
    fields: fieldsOf(resource, object),
    json: JSON.stringify({ kind, apiVersion, metadata, ...rest }),
  }
}

/** The object as JSON.parse makes it: the caller's own copy. */
export const parsed = (stored: Stored): KubeObject =>
  JSON.parse(stored.json) as KubeObject

/**
 * As an item of a list: the API server leaves kind and apiVersion out there (they are the
 * list's), and so must this one, or a client that relies on them passes its tests.
 */
export const asItem = ({ resource, json }: Stored): string =>
  `{${json.slice(prefixLength(resource))}`

const prefixLength = ({ kind, apiVersion }: Resource): number =>
  `{"kind":"${kind}","apiVersion":"${apiVersion}",`.length

const fieldsOf = (resource: Resource, object: KubeObject): Record<string, string> => {
  const { name, namespace = '' } = object.metadata
  const fields: Record<string, string> = { 'metadata.name': name }
  if (resource.namespaced) fields['metadata.namespace'] = namespace
  for (const path of resource.fields) fields[path] = valueAt(object, path.split('.'))
  return fields
}

const valueAt = (object: unknown, path: readonly string[]): string => {
  let value: unknown = object
  for (const step of path) value = isRecord(value) ? value[step] : undefined
  return typeof value === 'string' ? value : ''
}
