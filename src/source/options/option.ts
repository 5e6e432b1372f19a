import * as v from 'valibot'
import type {
  BalanceOptions,
  CapacityOptions,
  RetryOptions,
  TrafficOptions,
} from '../../model/traffic.ts'
import type { AccessLogOptions } from '../../model/access-log.ts'
import type { CheckEffects } from '../../model/service.ts'
import { goNanoseconds } from '../../util/duration.ts'
import { peek } from '../../util/printable.ts'
import { msOf } from '../../util/schema.ts'
import type { Route } from '../routes/route.ts'

// An option is one row: what it takes, what the docs say of it, what a relay is told, and how that is
// shown. Flags, files, annotations, the JSON Schema and the docs' tables are made from the rows.

/** What options come to, as much as was given of each. Plain data. */
export interface Draft
  extends
    CheckEffects,
    Pick<TrafficOptions, 'ages' | 'limits' | 'udp' | 'proxyProtocol' | 'acceptProxy'>,
    Partial<Pick<Route, 'affinityMs' | 'check' | 'lists' | 'onGone'>> {
  readonly retry?: Partial<RetryOptions>
  readonly balance?: Partial<BalanceOptions>
  readonly capacity?: Partial<CapacityOptions>
  readonly accessLog?: Partial<AccessLogOptions>
  /** Of Services. */
  readonly relayed?: true
}

/** How options are where they are given. */
export interface Ways {
  /** What an option is called there: `retryEarlyClose`, `retry-early-close`. */
  readonly nameOf: (option: string) => string
  /** What holds where retryEarlyClose is not given. */
  readonly earlyClose: boolean
}

/** What a value of an option is among those of a relay. */
type Place =
  | { [G in Group]: readonly [G, keyof NonNullable<TrafficOptions[G]>] }[Group]
  | readonly ['proxyProtocol' | 'acceptProxy', undefined?]

type Group = 'retry' | 'ages' | 'limits' | 'balance' | 'capacity' | 'udp' | 'accessLog'

interface Columns {
  /** Undefined where it is about both. */
  readonly protocol?: 'TCP' | 'UDP'
  /** It goes by the address of a client. */
  readonly isByAddress?: boolean
  /** The option without which it does nothing. */
  readonly needs?: string
  /** Why it does nothing beside others, of which any may be unsound; '' where it does something. */
  readonly idle?: (all: object, ways: Ways) => string
  readonly at?: Place
  /** How what is in force is told, where not just as it is; undefined: not at all. */
  readonly show?: (value: unknown, options: TrafficOptions) => string | undefined
}

interface Row<S extends v.GenericSchema> extends Columns {
  /** Where the schema has none. */
  readonly example?: v.InferOutput<S>
  /** To what it is in its place, where that is something else. */
  readonly read?: (given: v.InferOutput<S>) => unknown
  /** In place of `at`. */
  readonly decode?: (given: v.InferOutput<S>) => Draft
}

export interface Option<S extends v.GenericSchema = v.GenericSchema> extends Columns {
  /** Only checks, as in decode/fields.ts; with the help and examples. */
  readonly schema: S
  /** Of a value that the schema takes. */
  readonly decode: (given: unknown) => Draft
}

export type Options = Readonly<Record<string, Option>>

/** A schema with what the docs say of it. */
export const described = <S extends v.GenericSchema>(
  schema: S,
  help: string,
  ...examples: v.InferOutput<S>[]
) => v.pipe(schema, v.description(help), v.examples(examples))

/** One row. */
export const option = <S extends v.GenericSchema>(
  schema: S,
  help: string,
  { example, read, decode, ...columns }: Row<S> = {},
) => ({
  ...columns,
  schema: described(schema, help, ...(example === undefined ? [] : [example])),
  decode: (value: unknown): Draft => {
    const given = value as v.InferOutput<S>
    return (
      decode?.(given) ?? draftAt(columns.at, read === undefined ? given : read(given))
    )
  },
})

const draftAt = (at: Place | undefined, value: unknown): Draft => {
  const [group, field] = at ?? []
  if (group === undefined) return {}
  return { [group]: field === undefined ? value : { [field]: value } }
}

/** What of an option is in force, as text; undefined where there is nothing to tell. */
export const shown = (
  { at, show }: Columns,
  options: TrafficOptions,
): string | undefined => {
  const [group = '', field] = at ?? []
  const whole = peek(options, group)
  const value = field === undefined ? whole : peek(whole, field)
  return show === undefined ? shownAsIs(value) : show(value, options)
}

export const shownAsIs = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined

/** Of texts with a duration, told as `1m30s`. */
export const time = {
  read: msOf,
  show: (ms: unknown) => (typeof ms === 'number' ? goNanoseconds(ms * 1e6) : undefined),
}

type Schemas<Rows extends Options> = {
  readonly [Name in keyof Rows]: Rows[Name]['schema']
}

export const schemasOf = <Rows extends Options>(rows: Rows): Schemas<Rows> =>
  Object.fromEntries(
    Object.entries(rows).map(([name, { schema }]) => [name, schema]),
  ) as Schemas<Rows>

/** What those that are given come to; of options without faults. */
export const decodeOptions = (rows: Options, raw: object): Draft => {
  const all = new Map<string, unknown>()
  for (const [name, { decode }] of Object.entries(rows)) {
    const given = peek(raw, name)
    if (given === undefined) continue
    for (const [group, value] of Object.entries(decode(given))) {
      const before = all.get(group)
      const isPart = typeof before === 'object' && typeof value === 'object'
      all.set(group, isPart ? { ...before, ...value } : value)
    }
  }
  return Object.fromEntries(all)
}

/** As a relay goes by them, with the defaults. `route`: what an access log calls it. */
export const withDefaults = (
  { retry, balance, capacity, accessLog, ...others }: Draft,
  earlyClose: boolean,
  route = '',
) => ({
  ...others,
  retry: { earlyClose, replay: 0, ...retry },
  balance: balance && { by: 'round-robin' as const, ...balance },
  capacity:
    capacity?.maxConnections === undefined
      ? undefined
      : {
          queueMs: 5000,
          mostQueued: 1024,
          ...capacity,
          maxConnections: capacity.maxConnections,
        },
  accessLog:
    accessLog?.format === undefined
      ? undefined
      : { to: 'stdout', ...accessLog, format: accessLog.format, route },
})

/** An option with what is wrong with it. */
interface OptionFault {
  readonly name: string
  readonly message: string
}

/** Options that do nothing beside the others. Of any object: what can't be read has its fault already. */
export const idleOptions = (
  rows: Options,
  raw: object,
  ways: Ways,
): readonly OptionFault[] =>
  Object.entries(rows)
    .filter(
      ([name, { schema }]) => Object.hasOwn(raw, name) && v.is(schema, peek(raw, name)),
    )
    .flatMap(([name, { needs, idle }]) => {
      const message =
        needs === undefined || Object.hasOwn(raw, needs)
          ? (idle?.(raw, ways) ?? '')
          : `does nothing without ${ways.nameOf(needs)}; give that as well`
      return message === '' ? [] : [{ name, message }]
    })

/** An option as it is written in a flag and an annotation: `retry-early-close`. */
export const flagName = (name: string): string =>
  name.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

/** As a file would have it; '' where there is none. */
export const exampleOf = (schema: v.GenericSchema): string => {
  const [one]: readonly unknown[] = v.getExamples(schema)
  if (Array.isArray(one)) return one.join(',')
  return ['string', 'boolean', 'number'].includes(typeof one) ? String(one) : ''
}

const switches: ReadonlyMap<string, boolean> = new Map([
  ['on', true],
  ['true', true],
  ['off', false],
  ['false', false],
])

/** The value that a file would have: flags and annotations have nothing but texts. */
export const fromText = ({ type }: v.GenericSchema, text: string): unknown => {
  if (type === 'array') return text.split(',')
  if (type === 'boolean') return switches.get(text) ?? text
  return type === 'number' && /^\d+$/.test(text) ? Number(text) : text
}
