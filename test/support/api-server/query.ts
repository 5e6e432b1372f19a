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
  if (!behaviour.fieldSelectors && /(?:^|,)(?!metadata\.)./.test(fields))
    throw new ApiError(400, `field label not supported: ${fields}`)
  const byLabel = labelSelector(query.get('labelSelector') ?? '')
  const byField = fieldSelector(fields, resource)
  return object =>
    (namespace === '' || object.namespace === namespace) &&
    (name === '' || object.name === name) &&
    byLabel(object) &&
    byField(object)
}

/** A resourceVersion of a query; undefined when it is not given. Throws 400. */
export const versionOf = (query: URLSearchParams): number | undefined => {
  const text = query.get('resourceVersion') ?? ''
  return text === '' ? undefined : wholeNumber('resourceVersion', text)
}

export const wholeNumber = (name: string, text: string): number => {
  if (!/^\d{1,15}$/.test(text))
    throw new ApiError(400, `${name}: Invalid value: "${text}": strconv.ParseUint`)
  return Number(text)
}
