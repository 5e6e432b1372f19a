import * as v from 'valibot'
import { show } from '../../util/printable.ts'
import { unknownName } from '../../util/suggest.ts'

/** What is wrong, and where: `['routes', 0, 'listen']`. */
export interface ShapeFault {
  readonly path: readonly (string | number)[]
  readonly message: string
}

/** All faults of a value at once, with fields that the schema does not have. */
export const shapeFaults = (schema: v.GenericSchema, given: unknown): ShapeFault[] => {
  const { issues = [] } = v.safeParse(schema, given, { abortPipeEarly: true })
  const stray = strayFaults(schema, given, [])
  // What has the wrong kind of a whole has no parts to find faults in.
  const whole = new Set(
    stray.filter(({ isWhole }) => isWhole).map(({ path }) => keyOf(path)),
  )
  const found = issues.map(({ path = [], message }) => ({
    path: path.map(({ key }) => (typeof key === 'number' ? key : String(key))),
    message,
  }))
  return [
    ...found.filter(({ path }) => !isWithinAny(path, whole)),
    ...stray.map(({ path, message }) => ({ path, message })),
  ]
}

const keyOf = (path: ShapeFault['path']): string => JSON.stringify(path)

const isWithinAny = (path: ShapeFault['path'], outer: ReadonlySet<string>): boolean =>
  outer.has(keyOf([])) || path.some((_, i) => outer.has(keyOf(path.slice(0, i + 1))))

interface StrayFault extends ShapeFault {
  readonly isWhole: boolean
}

/** valibot passes over unknown fields, or stops at the first; and a list is an object to it. */
const strayFaults = (
  schema: v.GenericSchema,
  given: unknown,
  path: ShapeFault['path'],
): StrayFault[] => {
  const { item, entries } = partsOf(schema)
  if (item !== undefined && Array.isArray(given))
    return given.flatMap((each, i) => strayFaults(item, each, [...path, i]))
  if (entries === undefined || typeof given !== 'object' || given === null) return []
  if (Array.isArray(given))
    return [{ path, message: wrongKind(schema, given), isWhole: true }]
  return Object.entries(given).flatMap(([name, value]) => {
    const field = Object.hasOwn(entries, name) ? entries[name] : undefined
    const at = [...path, name]
    if (field !== undefined) return strayFaults(field, value, at)
    return [
      {
        path: at,
        message: unknownName(name, Object.keys(entries), elsewhere),
        isWhole: true,
      },
    ]
  })
}

/** What the schema itself says of a number. */
const wrongKind = (schema: v.GenericSchema, given: unknown): string => {
  const { issues: [{ message }] = [{ message: '' }] } = v.safeParse(schema, 0)
  return message.replace(show(0), show(given))
}

interface Parts {
  readonly item?: v.GenericSchema
  readonly entries?: Readonly<Record<string, v.GenericSchema>>
}

const partsOf = (schema: v.GenericSchema): Parts => {
  const inner = schema as { readonly wrapped?: v.GenericSchema } & Parts
  return inner.wrapped === undefined ? inner : partsOf(inner.wrapped)
}

/**
 * What HAProxy and nginx call fields of a route, without hyphens and spaces, and what they are
 * called here. Only words that mean the same.
 */
export const elsewhere: ReadonlyMap<string, string> = new Map([
  ['bind', 'listen'],
  ['server', 'endpoints'],
  ['servers', 'endpoints'],
  ['backends', 'endpoints'],
  ['upstream', 'endpoints'],
  ['maxconn', 'maxConnections'],
  ['maxconns', 'maxConnections'],
  ['timeoutqueue', 'queue'],
  ['maxqueue', 'mostQueued'],
  ['timeoutclient', 'idleTimeout'],
  ['timeoutserver', 'idleTimeout'],
  ['timeouttunnel', 'idleTimeout'],
  ['proxytimeout', 'idleTimeout'],
  ['sendproxy', 'proxyProtocol'],
  ['sendproxyv2', 'proxyProtocol'],
  ['expectproxy', 'acceptProxy'],
  ['onmarkeddown', 'onDown'],
  ['onmarkedup', 'onBack'],
  ['sni', 'serverNames'],
  ['stick', 'affinity'],
  ['log', 'accessLog'],
])
