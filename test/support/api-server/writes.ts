import { ApiError } from './api-error.ts'
import { isRecord, type KubeObject, type Metadata } from './kube-object.ts'
import { mergePatch } from './merge-patch.ts'
import { groupOf, type Resource } from './resources.ts'
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
      throw alreadyExists(resource, object.metadata.name)
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

// NewNotFound, NewAlreadyExists and NewConflict of apimachinery's api/errors.
export const notFound = (resource: Resource, name: string): ApiError =>
  new ApiError(404, `${qualified(resource)} "${name}" not found`, {
    details: detailsOf(resource, name),
  })

const alreadyExists = (resource: Resource, name: string): ApiError =>
  new ApiError(409, `${qualified(resource)} "${name}" already exists`, {
    reason: 'AlreadyExists',
    details: detailsOf(resource, name),
  })

const checkVersion = (resource: Resource, before: Stored, object: KubeObject): void => {
  const given = object.metadata.resourceVersion ?? ''
  if (given === '' || given === String(before.version)) return
  throw new ApiError(
    409,
    `Operation cannot be fulfilled on ${qualified(resource)} "${before.name}": the object has been modified; please apply your changes to the latest version and try again`,
    { details: detailsOf(resource, before.name) },
  )
}

/** `endpointslices.discovery.k8s.io`, `services`. */
const qualified = ({ plural, apiVersion }: Resource): string =>
  [plural, groupOf(apiVersion)].filter(Boolean).join('.')

const detailsOf = ({ plural, apiVersion }: Resource, name: string) => ({
  name,
  ...(groupOf(apiVersion) !== '' && { group: groupOf(apiVersion) }),
  kind: plural,
})

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
    throw new ApiError(
      415,
      `the body of the request was in an unknown format - accepted media types include: ${[...patchTypes].join(', ')}`,
    )
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
    // In the words of another JSON reader than Go's.
    throw new ApiError(
      400,
      `couldn't get version/kind; json parse error: ${String(error)}`,
    )
  }
}

/** What was sent, under the name and the namespace of the path. */
const objectOf = (resource: Resource, target: Target, body: unknown): KubeObject => {
  if (!isRecord(body))
    throw new ApiError(
      400,
      "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct",
    )
  const given = isRecord(body['metadata']) ? body['metadata'] : {}
  const name = target.name || nameIn(given)
  if (name === '') throw nameMissing(resource)
  if (given['name'] !== undefined && given['name'] !== name)
    throw new ApiError(
      400,
      `the name of the object (${nameIn(given)}) does not match the name on the URL (${name})`,
    )
  const metadata: Metadata = {
    ...given,
    name,
    ...(resource.namespaced ? { namespace: target.namespace } : {}),
  }
  return { ...body, kind: resource.kind, apiVersion: resource.apiVersion, metadata }
}

const nameMissing = ({ kind, apiVersion }: Resource): ApiError => {
  const qualifiedKind = [kind, groupOf(apiVersion)].filter(Boolean).join('.')
  const why = 'metadata.name: Required value: name or generateName is required'
  return new ApiError(422, `${qualifiedKind} "" is invalid: ${why}`)
}

const nameIn = ({ name, generateName }: Record<string, unknown>): string => {
  if (typeof name === 'string') return name
  if (typeof generateName !== 'string') return ''
  return generateName + Math.random().toString(36).slice(2, 7)
}
