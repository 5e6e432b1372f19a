import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { apiVersion, itemShapes } from '../src/cli/get-documents.ts'
import { statusSchema } from '../src/observe/status.ts'
import { styled } from './styled.ts'

/** As this version writes it: what an older one leaves out is there. */
const jsonSchemaOf = (shape: v.GenericSchema): object => {
  const { $schema: _, ...rest } = toJsonSchema(shape, {
    target: 'draft-2020-12',
    typeMode: 'output',
    errorMode: 'ignore',
  })
  return rest
}

const listOf = (kind: string, item: v.GenericSchema): object =>
  jsonSchemaOf(
    v.object({
      apiVersion: v.literal(apiVersion),
      kind: v.literal(kind),
      metadata: v.object({
        leftOut: v.pipe(v.number(), v.description('How many there are besides.')),
      }),
      items: v.array(item),
    }),
  )

const styledSchema = (title: string, schema: object): Promise<string> =>
  styled(
    JSON.stringify({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      title,
      ...schema,
    }),
    'json',
  )

/** JSON Schemas of what Usher answers, by the paths of their files. */
export const outputSchemas = async (): Promise<ReadonlyMap<string, string>> => {
  const kinds = Object.entries(itemShapes)
  const either = { anyOf: kinds.map(([kind]) => ({ $ref: `#/$defs/${kind}` })) }
  const lists = kinds.map(([kind, item]) => [kind, listOf(kind, item)])
  const documents = { ...either, $defs: Object.fromEntries(lists) as object }
  return new Map([
    [
      'deploy/get.schema.json',
      await styledSchema('What `usher get -o json` prints', documents),
    ],
    [
      'deploy/status.schema.json',
      await styledSchema(
        'What `usher status --json` prints, and /status answers',
        jsonSchemaOf(statusSchema),
      ),
    ],
  ])
}
