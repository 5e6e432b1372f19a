import { ApiError } from './api-error.ts'
import { isRecord, type KubeObject, type Metadata } from './kube-object.ts'
import { mergePatch } from './merge-patch.ts'
import type { Resource } from './resources.ts'
import { parsed, type Stored } from './stored.ts'
import type { Store } from './store.ts'
import type { Target } from './target.ts'

export interface Written {
  readonly status: number
  readonly json: string
}

/** Carries out a POST, PUT, PATCH or DELETE. Throws 400, 404, 409 or 415. */
export const write = (
  store: Store,
  resource: Resource,
  target: Target,
  body: string,
  contentType: string,
): Written => {
  const { verb, namespace, name, query } = target
  const before = store.get(resource, namespace, name)
  const dryRun = query.get('dryRun') === 'All'
  const save = (object: KubeObject, status: number): Written => ({
    status,
    json: dryRun ? JSON.stringify(object) : store.put(object).json,
  })
  if (verb === 'create') {
    const object = objectOf(resource, target, json(body))
    if (store.get(resource, namespace, object.metadata.name) !== undefined)
      throw conflict(resource, object.metadata.name, 'already exists', 'AlreadyExists')
    return save(object, 201)
  }
  if (verb === 'patch')
    return save(patched(resource, target, before, body, contentType), 200)
  if (before === undefined) throw notFound(resource, name)
  if (verb === 'delete') {
    const last = dryRun ? before : store.delete(resource, namespace, name)
    return { status: 200, json: (last ?? before).json }
  }
  const object = objectOf(resource, target, json(body))
  checkVersion(resource, before, object)
  return save(object, 200)
}

export const notFound = ({ plural }: Resource, name: string): ApiError =>
  new ApiError(404, `${plural} "${name}" not found`, { details: { name, kind: plural } })

const conflict = (
  { plural }: Resource,
  name: string,
  why: string,
  reason?: string,
): ApiError =>
  new ApiError(409, `${plural} "${name}" ${why}`, {
    details: { name, kind: plural },
    ...(reason === undefined ? {} : { reason }),
  })

const checkVersion = (resource: Resource, before: Stored, object: KubeObject): void => {
  const given = object.metadata.resourceVersion ?? ''
  if (given !== '' && given !== String(before.version))
    throw conflict(resource, before.name, 'has been modified; please apply your changes')
}

const applyType = 'application/apply-patch+yaml'
const patchTypes = new Set([
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  applyType,
])

const patched = (
  resource: Resource,
  target: Target,
  before: Stored | undefined,
  body: string,
  contentType: string,
): KubeObject => {
  const type = contentType.split(';')[0] ?? ''
  if (!patchTypes.has(type))
    throw new ApiError(415, `the body of the request was in an unknown format: ${type}`)
  if (before === undefined && type !== applyType) throw notFound(resource, target.name)
  const old: unknown = before === undefined ? {} : parsed(before)
  const object = objectOf(resource, target, mergePatch(old, json(body)))
  if (before !== undefined) checkVersion(resource, before, object)
  return object
}

const json = (body: string): unknown => {
  try {
    return JSON.parse(body) as unknown
  } catch (error) {
    throw new ApiError(400, `the body is no JSON: ${String(error)}`)
  }
}

/** What was sent, under the name and the namespace of the path. */
const objectOf = (resource: Resource, target: Target, body: unknown): KubeObject => {
  if (!isRecord(body)) throw new ApiError(400, 'the body is no object')
  const given = isRecord(body['metadata']) ? body['metadata'] : {}
  const name = target.name || nameIn(given)
  if (name === '') throw new ApiError(422, 'metadata.name: Required value')
  if (given['name'] !== undefined && given['name'] !== name)
    throw new ApiError(400, 'the name of the object does not match the name on the URL')
  const metadata: Metadata = {
    ...given,
    name,
    ...(resource.namespaced ? { namespace: target.namespace } : {}),
  }
  return { ...body, kind: resource.kind, apiVersion: resource.apiVersion, metadata }
}

const nameIn = ({ name, generateName }: Record<string, unknown>): string => {
  if (typeof name === 'string') return name
  if (typeof generateName !== 'string') return ''
  return generateName + Math.random().toString(36).slice(2, 7)
}
