import { ApiError } from './api-error.ts'
import type { Behaviour } from './options.ts'
import { fieldSelector, labelSelector, type Selector } from './selectors.ts'
import type { Resource } from './resources.ts'
import type { Target } from './target.ts'

/** Which objects of the collection a request is for. Throws 400. */
export const selectorOf = (
  resource: Resource,
  { namespace, name, query }: Target,
  behaviour: Behaviour,
): Selector => {
  const fields = query.get('fieldSelector') ?? ''
  const byLabel = labelSelector(query.get('labelSelector') ?? '')
  const known = fieldSelectorsOf(resource, behaviour)
  const byField = fieldSelector(fields, known)
  return object =>
    (namespace === '' || object.namespace === namespace) &&
    (name === '' || object.name === name) &&
    byLabel(object) &&
    byField(object)
}

/** undefined: the kind has none of its own. */
const fieldSelectorsOf = (
  { plural, fields }: Resource,
  { serviceFields }: Behaviour,
): readonly string[] | undefined =>
  fields.length === 0 || (plural === 'services' && !serviceFields) ? undefined : fields

/** The resourceVersion of a list; undefined when it is not given. Throws 400. */
export const listVersionOf = (query: URLSearchParams): number | undefined =>
  versionOf(query, fault => new ApiError(400, `invalid resource version: ${fault}`))

/** The resourceVersion of a watch; undefined when it is not given. Throws 422. */
export const watchVersionOf = (
  query: URLSearchParams,
  { plural }: Resource,
): number | undefined =>
  versionOf(query, fault => new ApiError(422, `${plural} "" is invalid: ${fault}`))

const versionOf = (
  query: URLSearchParams,
  refusal: (fault: string) => ApiError,
): number | undefined => {
  const text = query.get('resourceVersion') ?? ''
  if (text === '') return undefined
  if (isWhole(text)) return Number(text)
  throw refusal(
    `resourceVersion: Invalid value: "${text}": strconv.ParseUint: parsing "${text}": invalid syntax`,
  )
}

const isWhole = (text: string): boolean => /^\d{1,15}$/.test(text)

export const wholeNumber = (text: string): number => {
  if (isWhole(text)) return Number(text)
  throw new ApiError(400, `strconv.ParseInt: parsing "${text}": invalid syntax`)
}
