import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { checkFields } from '../src/health/check-option.ts'
import { styled } from './styled.ts'
import { allOptions, fileShape, routeShape } from '../src/source/routes/route-fields.ts'

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

/** What holds where a field is not given; '' where its meaning says that. */
const defaults: Readonly<Record<keyof typeof routeShape.entries, string>> = {
  listen: 'required',
  endpoints: '',
  tiers: '',
  serverNames: '',
  name: '',
  affinity: 'off',
  retryEarlyClose: '`true`',
  replay: '`0`',
  answerWithin: 'off',
  hold: '`0s`',
  mostHeld: '`256`',
  idleTimeout: '`--tcp-idle-timeout`',
  lifetime: 'off',
  proxyProtocol: 'off',
  balance: '`round-robin`',
  slowStart: 'off',
  maxConnections: 'any number',
  queue: '`5s`',
  mostQueued: '`1024`',
  maxRouteConnections: 'any number',
  maxRouteRate: 'any number',
  maxClientConnections: 'any number',
  maxClientRate: 'any number',
  udpIdleTimeout: '`--udp-reply-timeout`, `--udp-timeout`',
  udpSpread: 'off',
  check: 'off',
  onDown: '`keep`',
  whenAllDown: '`refuse` for a role, else `try`',
  onBack: '`keep`',
  allow: 'all clients',
  deny: 'no client',
  probers: 'no client',
  acceptProxy: 'no client',
  onGone: '`keep`',
  accessLog: 'off',
  accessLogTo: '`stdout`',
  socketMode: "`'660'`",
  socketOwner: "Usher's user and group",
}

/** What a field takes, by what is said of a value that it does not take. */
const valuesOf = (schema: v.GenericSchema): string => {
  const { issues: [issue] = [] } = v.safeParse(schema, null)
  if (issue === undefined) throw new Error('a field of a route takes null')
  return issue.message
    .replace(/^null is not (an? )?/, '')
    .replace(/, like .*$/s, '')
    .replace(/^(duration|number of [a-z ]+) from /, '')
}

/** The columns of the table say what a help begins with: `TCP only; off by default.` */
const meaningOf = (schema: v.GenericSchema): string =>
  (v.getDescription(schema) ?? '')
    .replace(/^(TCP|UDP) only(; [^.]*)?\. /, '')
    .replace(/^Off by default\. /, '')
    .replace(/; [^;.]* by default\./, '.')

const rows = Object.entries<v.GenericSchema>(routeShape.entries).map(([name, entry]) => {
  const { wrapped: schema = entry } = entry as { readonly wrapped?: v.GenericSchema }
  const { protocol = 'both', needs } = allOptions[name] ?? {}
  const meaning = `${needs === undefined ? '' : `Needs \`${needs}\`. `}${meaningOf(schema)}`
  const byDefault = defaults[name as keyof typeof defaults]
  const cells = [`\`${name}\``, byDefault, valuesOf(schema), protocol, meaning]
  return `| ${cells.map(cell).join(' | ')} |`
})

/** The page with the table of a route's fields written anew. */
export const withRouteFields = async (page: string): Promise<string> => {
  const from = page.indexOf(begin)
  const to = page.indexOf(end, from)
  if (from === -1 || to === -1) throw new Error(`the page has no ${begin} ... ${end}`)
  const head = [
    '| Field | Default | Takes | For | What it does |',
    '| --- | --- | --- | --- | --- |',
  ]
  const block = await styled([...head, ...rows].join('\n'), 'markdown')
  return `${page.slice(0, from + begin.length)}\n\n${block}\n${page.slice(to)}`
}
