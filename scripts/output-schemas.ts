import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { apiVersion, itemShapes, singleShapes } from '../src/cli/json-documents.ts'
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

const documentOf = (kind: string, fields: v.ObjectEntries): object =>
  jsonSchemaOf(
    v.object({ apiVersion: v.literal(apiVersion), kind: v.literal(kind), ...fields }),
  )

const listOf = (kind: string, item: v.GenericSchema): object =>
  documentOf(kind, {
    metadata: v.object({
      leftOut: v.pipe(v.number(), v.description('How many there are besides.')),
    }),
    items: v.array(item),
  })

const documents = (): object => {
  const $defs = Object.fromEntries([
    ...Object.entries(itemShapes).map(([kind, item]) => [kind, listOf(kind, item)]),
    ...Object.entries(singleShapes).map(([kind, { entries }]) => [
      kind,
      documentOf(kind, entries),
    ]),
  ]) as object
  const anyOf = Object.keys($defs).map(kind => ({ $ref: `#/$defs/${kind}` }))
  return { anyOf, $defs }
}

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
  return new Map([
    [
      'deploy/output.schema.json',
      await styledSchema(
        'What usher get, tap and explain print with -o json',
        documents(),
      ),
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
