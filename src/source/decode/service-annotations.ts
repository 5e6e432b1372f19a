import * as v from 'valibot'
import type { CheckEffects, Protocol, Service } from '../../model/service.ts'
import type { RetryOptions, TrafficOptions } from '../../model/traffic.ts'
import { show, peek } from '../../util/printable.ts'
import { isNot, checkedText } from '../../util/schema.ts'
import { unknownName } from '../../util/suggest.ts'
import {
  decodeEffects,
  decodeTraffic,
  endpointOptions,
  idleOptions,
  udpOptions,
} from '../options/endpoint-options.ts'
import { flagName, fromText } from '../options/option-text.ts'
import { type Fault, fieldPath, mostProblems } from './problem.ts'

/** Of the annotations by which a Service asks for what routes of a sidecar have. */
export const annotationPrefix = 'usher-proxy.io/'

/** What the others ask for depends on the server, a port or an account: they are for routes. */
const check = v.literal('tcp', isNot('tcp, the only check that Services have'))

const mostWeight = 256

/** `a=3,b=1`; undefined where the text is none, or has a zone twice. */
const readZoneWeights = (text: string): Readonly<Record<string, number>> | undefined => {
  const weights = new Map<string, number>()
  for (const part of text.split(',')) {
    // A label's value (Kubernetes, "Labels and Selectors").
    const [, zone = '', weight] = /^([\w.-]{1,63})=(\d{1,3})$/.exec(part.trim()) ?? []
    if (zone === '' || Number(weight) > mostWeight || weights.has(zone)) return undefined
    weights.set(zone, Number(weight))
  }
  return Object.fromEntries(weights)
}

/** Of Services alone: endpoints of routes have no zone. */
const zoneWeights = v.pipe(
  checkedText(
    given => readZoneWeights(given) !== undefined,
    'zones with weights from 0 to 256, each once, like eu-1a=3,eu-1b=1',
    String.raw`^[\w.-]+=\d+(,[\w.-]+=\d+)*$`,
    'eu-1a=3,eu-1b=1',
  ),
)

const relay = v.boolean(isNot('true or false'))

const schemas = { ...endpointOptions, zoneWeights, check, relay }
const shape = v.partial(v.object(schemas))

/** By what an annotation has after the prefix: `retry-early-close`. */
export const annotated: ReadonlyMap<string, v.GenericSchema> = new Map(
  Object.entries(schemas).map(([option, schema]) => [flagName(option), schema]),
)
const known = [...annotated.keys()]
const optionOf = new Map(Object.keys(schemas).map(option => [flagName(option), option]))

/** No option has a longer value or name; annotations may have 256 KiB. */
const longest = 100

interface Annotated {
  readonly options: TrafficOptions & Pick<Service, keyof CheckEffects | 'relayed'>
  /** What is not in `options`. */
  readonly faults: readonly Fault[]
}

const nothing: Annotated = { options: {}, faults: [] }

/**
 * What a Service's annotations ask for. Those without the prefix are not looked at. `protocols`: of
 * its ports.
 */
export const readAnnotations = (
  annotations: unknown,
  protocols: readonly Protocol[] = [],
): Annotated => {
  const keys = prefixed(annotations)
  if (keys.length === 0) return nothing
  const raw: Record<string, unknown> = {}
  const faults: Fault[] = []
  for (const key of keys) {
    const given = peek(annotations, `${annotationPrefix}${key}`)
    const schema = annotated.get(key)
    const value = schema && typeof given === 'string' ? fromText(schema, given) : given
    const message =
      schema === undefined
        ? unknownKey(key, faults.length)
        : valueFault(schema, given, value)
    if (message !== '') faults.push({ field: fieldOf(key), message })
    else raw[optionOf.get(key) ?? key] = value
  }
  for (const { name, message } of idleOptions(raw, false, flagName)) {
    delete raw[name]
    faults.push({ field: fieldOf(flagName(name)), message })
  }
  for (const option of Object.keys(raw)) {
    const message = withoutPort(option, protocols)
    if (message !== '') faults.push({ field: fieldOf(flagName(option)), message })
  }
  return { options: optionsOf(v.parse(shape, raw)), faults }
}

/** Where no port can have an option. */
const withoutPort = (option: string, protocols: readonly Protocol[]): string => {
  const forBoth: readonly Protocol[] = forUdp.has(option) ? ['TCP', 'UDP'] : ['TCP']
  const those = Object.hasOwn(udpOptions, option) ? (['UDP'] as const) : forBoth
  return protocols.length === 0 || protocols.some(one => those.includes(one))
    ? ''
    : `does nothing, as the Service has no ${those.join(' or ')} port`
}

/** The other ones are about TCP. */
const forUdp: ReadonlySet<string> = new Set([
  'balance',
  'slowStart',
  'zoneWeights',
  'relay',
])

/** What is after the prefix. */
const prefixed = (annotations: unknown): readonly string[] =>
  typeof annotations === 'object' && annotations !== null
    ? Object.keys(annotations)
        .filter(key => key.startsWith(annotationPrefix))
        .map(key => key.slice(annotationPrefix.length))
    : []

/** After some it is no more looked for what was meant, which takes time: they are only counted. */
const unknownKey = (key: string, faults: number): string =>
  faults < mostProblems ? unknownName(key.slice(0, longest), known) : 'is unknown'

const valueFault = (schema: v.GenericSchema, given: unknown, value: unknown): string => {
  if (typeof given !== 'string') return `${show(given)} is not text; put it in quotes`
  if (given.length > longest) return `${show(given)} is too long`
  const [issue] = v.safeParse(schema, value).issues ?? []
  return issue?.message ?? ''
}

const fieldOf = (key: string): string =>
  fieldPath(['metadata', 'annotations', `${annotationPrefix}${key}`])

const optionsOf = (raw: v.InferOutput<typeof shape>): Annotated['options'] => {
  const { retry, ...others } = decodeTraffic(raw, false)
  const weights = readZoneWeights(raw.zoneWeights ?? '')
  return {
    ...(retry !== undefined && !asksForNothing(retry) && { retry }),
    ...others,
    ...(weights && {
      balance: { by: 'round-robin', ...others.balance, zoneWeights: weights },
    }),
    ...(raw.check !== undefined && decodeEffects(raw)),
    ...(raw.relay === true && { relayed: true }),
  }
}

/** `most-held` counts without `hold`, too: where the Service is paused. */
const asksForNothing = ({
  earlyClose,
  answerMs,
  holdMs = 0,
  mostHeld,
}: RetryOptions): boolean =>
  !earlyClose && answerMs === undefined && holdMs === 0 && mostHeld === undefined
