import { allResources, type Resource } from './resources.ts'

export type Verb =
  'list' | 'watch' | 'get' | 'create' | 'update' | 'patch' | 'delete' | 'discovery'

/** What a request is about. */
export interface Target {
  readonly verb: Verb
  /** Without it the request is for discovery, or for nothing the server knows. */
  readonly resource: Resource | undefined
  readonly namespace: string
  readonly name: string
  readonly path: string
  readonly query: URLSearchParams
}

const writes: Readonly<Record<string, Verb>> = {
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
}

const coreOrGroup =
  /^\/(?:api\/(v1)|apis\/([^/]+\/[^/]+))(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?$/

/** Reads a request line. */
export const targetOf = (method: string, url: string): Target => {
  const { pathname: path, searchParams: query } = new URL(url, 'https://localhost')
  const [, core, group, namespace = '', plural, name = ''] = match(path)
  const apiVersion = core ?? group
  const resource = allResources.find(
    each =>
      each.plural === plural &&
      each.apiVersion === apiVersion &&
      (each.namespaced || namespace === ''),
  )
  const verb = resource === undefined ? 'discovery' : verbOf(method, name, query)
  return { verb, resource, namespace, name: decodeURIComponent(name), path, query }
}

/** The Namespace `a` has the path that the things in it begin with. */
const match = (path: string): readonly (string | undefined)[] => {
  const [, name] = /^\/api\/v1\/namespaces\/([^/]+)$/.exec(path) ?? []
  if (name !== undefined) return ['', 'v1', undefined, '', 'namespaces', name]
  return coreOrGroup.exec(path) ?? []
}

const verbOf = (method: string, name: string, query: URLSearchParams): Verb => {
  const write = writes[method]
  if (write !== undefined) return write
  if (isTrue(query.get('watch'))) return 'watch'
  return name === '' ? 'list' : 'get'
}

/** A boolean of a query, as the API server reads it: `?watch` alone says yes, too. */
export const isTrue = (value: string | null): boolean =>
  value !== null && !['0', 'false'].includes(value.toLowerCase())
