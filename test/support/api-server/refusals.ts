// What a real API server says. The words and codes are those of Kubernetes' sources, which
// each comment names, so that nobody's guess is tested against itself.
import { ApiError, PlainError } from './api-error.ts'
import { groupOf } from './resources.ts'
import type { Target } from './target.ts'

/** A watch from before what the watch cache remembers (storage/cacher, 1.10 on). */
export const tooOldWatch = (asked: number, oldest: number): ApiError =>
  new ApiError(410, `too old resource version: ${asked} (${oldest})`)

/** A list of a version that etcd has compacted (storage/etcd3/errors.go). */
export const tooOldList = (): ApiError =>
  new ApiError(410, 'The resourceVersion for the provided list is too old.')

/** A further page of such a list; it may be had inconsistently, by another token. */
export const tooOldPage = (token: string): ApiError =>
  new ApiError(
    410,
    'The provided continue parameter is too old to display a consistent list result. ' +
      'You can start a new list without the continue parameter, or use the continue ' +
      'token in this response to retrieve the remainder of the results. Continuing ' +
      'with the provided token results in an inconsistent list - objects that were ' +
      'created, modified, or deleted between the time the first chunk was returned ' +
      'and now may show up in the list.',
    { metadata: { continue: token } },
  )

/** A version from the future, as after a restored backup (storage/errors.go). */
export const tooLarge = (asked: number, current: number): ApiError =>
  new ApiError(
    504,
    `Timeout: Too large resource version: ${asked}, current: ${current}`,
    {
      details: {
        causes: [
          { reason: 'ResourceVersionTooLarge', message: 'Too large resource version' },
        ],
        retryAfterSeconds: 1,
      },
    },
  )

/** Parameters that exclude each other (apis/meta/internalversion/validation). */
export const invalidOptions = (faults: readonly string[]): ApiError => {
  const all = faults.length === 1 ? faults.join('') : `[${faults.join(', ')}]`
  return new ApiError(422, `ListOptions.meta.k8s.io "" is invalid: ${all}`, {
    details: { group: 'meta.k8s.io', kind: 'ListOptions' },
  })
}

/** What is not served: known group or not (go-restful's errors, http.NotFound). */
export const notServed = (groupIsKnown: boolean): ApiError =>
  groupIsKnown
    ? new ApiError(404, 'the server could not find the requested resource', {
        details: {},
      })
    : new PlainError(404, '404 page not found')

/** RBAC's (endpoints/handlers/responsewriters/errors.go). */
const forbidden = ({ verb, resource, namespace, name }: Target): ApiError => {
  const [group, kind] = [groupOf(resource?.apiVersion ?? ''), resource?.plural ?? '']
  const what = group === '' ? kind : `${kind}.${group}`
  const where =
    namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`
  return new ApiError(
    403,
    `${what}${name === '' ? '' : ` "${name}"`} is forbidden: User "system:serviceaccount:kube-system:usher" cannot ${verb} resource "${kind}" in API group "${group}" ${where}`,
    { details: { ...(group !== '' && { group }), kind } },
  )
}

/** What a real server says with this code to this request, or the likeliest of several. */
export const refusalOf = (
  code: number,
  target: Target,
  retryAfterSeconds?: number,
): ApiError => {
  const later = retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } }
  switch (code) {
    case 400:
      // NewGenericServerResponse of apimachinery: what it says when there is no reason.
      return new ApiError(400, 'the server rejected our request for an unknown reason')
    case 401:
      return new ApiError(401, 'Unauthorized')
    case 403:
      return forbidden(target)
    case 404:
      return notServed(true)
    case 410:
      return target.verb === 'watch' ? tooOldWatch(1, 2) : tooOldList()
    case 422:
      return invalidOptions([noWatchList])
    case 429:
      // A watch cache that is being filled (storage/cacher, from 1.31).
      if (target.verb === 'watch')
        return new ApiError(429, 'storage is (re)initializing', {
          details: { retryAfterSeconds: retryAfterSeconds ?? 1 },
        })
      // Priority and fairness (server/filters), which always says when.
      return new PlainError(429, 'Too many requests, please try again later.', {
        'retry-after': String(retryAfterSeconds ?? 1),
      })
    case 500:
      // What etcd's client says when there is no leader passes through as it is.
      return new ApiError(500, 'etcdserver: leader changed', { reason: '', ...later })
    case 503:
      return new ApiError(503, 'apiserver is shutting down', later)
    case 504:
      return new ApiError(
        504,
        'Timeout: request did not complete within the allotted timeout',
        { details: {} },
      )
    default:
      throw new Error(`the test server has no words for ${code}`)
  }
}

/** A kind without field selectors of its own (apimachinery, runtime/conversion.go). */
export const unknownField = (path: string): ApiError =>
  new ApiError(
    400,
    `"${path}" is not a known field selector: only "metadata.name", "metadata.namespace"`,
  )

/** A kind with some, but not this one (apis/core/v1/conversion.go). */
export const unsupportedField = (path: string): ApiError =>
  new ApiError(400, `field label not supported: ${path}`)

export const noWatchList =
  'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled'

/** An etcd that does not tell how far it has got, before 3.4.31 and 3.5.13 (storage/feature). */
export const noProgress = (): ApiError =>
  new ApiError(
    500,
    'a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled',
  )
