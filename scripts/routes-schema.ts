import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { checkFields } from '../src/health/check-option.ts'
import { exampleOf, flagName } from '../src/source/options/option.ts'
import { styled } from './styled.ts'
import { fileShape, routeOptions, routeShape } from '../src/source/routes/route-fields.ts'

/** Of a check the texts are ours alone; its objects have these fields. */
const checkSchema = {
  anyOf: [
    { type: 'string' as const },
    {
      ...toJsonSchema(v.object(checkFields), { errorMode: 'ignore' }),
      additionalProperties: false,
    },
  ],
}

/** The JSON Schema of a file of routes, for editors. */
export const routesSchema = async (): Promise<string> => {
  const schema = toJsonSchema(fileShape, {
    errorMode: 'ignore', // Of our own checks an editor knows the pattern.
    overrideSchema: ({ valibotSchema, jsonSchema }) => {
      const { pattern } = v.getMetadata(valibotSchema)
      if (valibotSchema.type === 'custom') return checkSchema
      const isEither = Object.hasOwn(jsonSchema.properties ?? {}, 'tiers')
      return {
        ...jsonSchema,
        ...(typeof pattern === 'string' && { pattern }),
        ...(jsonSchema.examples?.length === 0 && { examples: undefined }),
        ...(jsonSchema.type === 'object' && { additionalProperties: false }),
        ...(isEither && {
          anyOf: [
            { required: ['endpoints'] },
            { required: ['tiers'] },
            { required: ['serverNames'] },
          ],
          not: { required: ['endpoints', 'tiers'] },
        }),
      }
    },
  })
  const whole = { ...schema, title: 'Routes of `usher sidecar --config`' }
  return styled(JSON.stringify(whole), 'json')
}

const begin = '<!-- route-fields:begin -->'
const end = '<!-- route-fields:end -->'

const cell = (text: string): string => text.replaceAll('|', String.raw`\|`)

const rows = Object.entries<v.GenericSchema>(routeShape.entries).map(([name, entry]) => {
  const { wrapped: schema = entry } = entry as { readonly wrapped?: v.GenericSchema }
  const flag = Object.hasOwn(routeOptions, name) ? `\`${flagName(name)}\`` : ''
  const example = exampleOf(schema)
  const meaning = cell(v.getDescription(schema) ?? '')
  return `| \`${name}\` | ${flag} | ${example === '' ? '' : `\`${example}\``} | ${meaning} |`
})

/** The page with the table of a route's fields written anew. */
export const withRouteFields = async (page: string): Promise<string> => {
  const from = page.indexOf(begin)
  const to = page.indexOf(end, from)
  if (from === -1 || to === -1) throw new Error(`the page has no ${begin} ... ${end}`)
  const head = [
    '| In a file | In a flag | Example | Meaning |',
    '| --- | --- | --- | --- |',
  ]
  const block = await styled([...head, ...rows].join('\n'), 'markdown')
  return `${page.slice(0, from + begin.length)}\n\n${block}\n${page.slice(to)}`
}
