import type * as v from 'valibot'

type Fields = Readonly<Record<string, v.GenericSchema>>

/**
 * A request as the query of a page: a list's field once for each item, `failed` or `failed=true`
 * for what is true or false. Whether the values are right is for its schema to say.
 */
export const queryRequest = (fields: Fields, query: string): unknown => {
  const given = new URLSearchParams(query)
  return Object.fromEntries(
    [...new Set(given.keys())].map(name => [name, valueOf(fields[name], given, name)]),
  )
}

const valueOf = (
  field: v.GenericSchema | undefined,
  given: URLSearchParams,
  name: string,
): unknown => {
  const values = given.getAll(name)
  const type = field === undefined ? '' : typeOf(field)
  if (type === 'array') return values
  if (values.length !== 1) return values
  const [value = ''] = values
  if (type === 'boolean' && ['', 'true', 'false'].includes(value))
    return value !== 'false'
  if (type === 'number' && /^\d+$/.test(value)) return Number(value)
  return value
}

/** Of an optional one, that of what may be given. */
const typeOf = (schema: v.GenericSchema & { readonly wrapped?: unknown }): string =>
  schema.wrapped === undefined ? schema.type : typeOf(schema.wrapped as v.GenericSchema)
