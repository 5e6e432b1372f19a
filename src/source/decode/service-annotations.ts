import * as v from 'valibot'
import type { CheckEffects, Protocol, Service } from '../../model/service.ts'
import type { RetryOptions, TrafficOptions } from '../../model/traffic.ts'
import { show, peek } from '../../util/printable.ts'
import { isNot, checkedText } from '../../util/schema.ts'
import { unknownName } from '../../util/suggest.ts'
import { endpointOptions } from '../options/endpoint-options.ts'
import {
  decodeOptions,
  flagName,
  fromText,
  idleOptions,
  option,
  type Option,
  type Options,
  type Ways,
  withDefaults,
} from '../options/option.ts'
import { type Fault, fieldPath, mostProblems } from './problem.ts'

/** Of the annotations by which a Service asks for what routes of a sidecar have. */
export const annotationPrefix = 'usher-proxy.io/'

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

const options: Options = {
  ...endpointOptions,
  /** Of Services alone: endpoints of routes have no zone. */
  zoneWeights: option(
    checkedText(
      given => readZoneWeights(given) !== undefined,
      'zones with weights from 0 to 256, each once, like eu-1a=3,eu-1b=1',
      String.raw`^[\w.-]+=\d+(,[\w.-]+=\d+)*$`,
      'eu-1a=3,eu-1b=1',
    ),
    'How many of the connections go to the endpoints of each zone.',
    { at: ['balance', 'zoneWeights'], read: readZoneWeights },
  ),
  /** What the others ask for depends on the server, a port or an account: they are for routes. */
  check: option(
    v.literal('tcp', isNot('tcp, the only check that Services have')),
    'How each endpoint is checked, every 2 s.',
    {
      protocol: 'TCP',
      decode: check => ({ onDown: 'keep', retry: { check } }),
    },
  ),
  relay: option(v.boolean(isNot('true or false')), 'The relay carries its clients.', {
    decode: on => (on ? { relayed: true } : {}),
  }),
}

/** By what an annotation has after the prefix: `retry-early-close`. */
export const annotated: ReadonlyMap<string, Option & { readonly key: string }> = new Map(
  Object.entries(options).map(([key, one]) => [flagName(key), { ...one, key }]),
)
const known = [...annotated.keys()]

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
    const one = annotated.get(key)
    const value =
      one !== undefined && typeof given === 'string' ? fromText(one.schema, given) : given
    const message =
      one === undefined
        ? unknownKey(key, faults.length)
        : valueFault(one.schema, given, value)
    if (message !== '') faults.push({ field: fieldOf(key), message })
    else raw[one?.key ?? key] = value
  }
  for (const { name, message } of idleOptions(options, raw, ways)) {
    delete raw[name]
    faults.push({ field: fieldOf(flagName(name)), message })
  }
  for (const name of Object.keys(raw)) {
    const message = withoutPort(name, protocols)
    if (message !== '') faults.push({ field: fieldOf(flagName(name)), message })
  }
  return { options: optionsOf(raw), faults }
}

/** As annotations have them, where early closes are retried if that is asked for. */
const ways: Ways = { nameOf: flagName, earlyClose: false }

/** Where no port can have an option. One that needs another is about the same protocol. */
const withoutPort = (name: string, protocols: readonly Protocol[]): string => {
  const { protocol, needs = '' } = options[name] ?? {}
  const only = protocol ?? options[needs]?.protocol
  const those: readonly Protocol[] = only === undefined ? ['TCP', 'UDP'] : [only]
  return protocols.length === 0 || protocols.some(one => those.includes(one))
    ? ''
    : `does nothing, as the Service has no ${those.join(' or ')} port`
}

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

const optionsOf = (raw: object): Annotated['options'] => {
  const { retry, ...others } = withDefaults(decodeOptions(options, raw), ways.earlyClose)
  return { ...others, ...(!asksForNothing(retry) && { retry }) }
}

/** `most-held` counts without `hold`, too: where the Service is paused. */
const asksForNothing = ({
  earlyClose,
  answerMs,
  holdMs = 0,
  mostHeld,
}: RetryOptions): boolean =>
  !earlyClose && answerMs === undefined && holdMs === 0 && mostHeld === undefined
