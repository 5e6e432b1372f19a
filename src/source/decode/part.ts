import * as v from 'valibot'
import { peek } from '../../util/printable.ts'
import { list } from './fields.ts'
import { faultOf, type Fault } from './problem.ts'

// By how a schema holds a value it says what a fault of it costs. The wrappers are optional,
// so that what was left out is like what was never given.

/** A list each of whose entries may be left out; what is left keeps its index. */
export const parts = <T extends v.GenericSchema>(item: T) => list(v.undefinedable(item))

/** Without those that were left out. */
export const present = <T>(given: readonly (T | undefined)[] | null | undefined): T[] =>
  (given ?? []).filter(one => one !== undefined)

/** Whether all of a list that held something was left out. */
export const allLeftOut = (given: readonly unknown[] | null | undefined): boolean =>
  given?.length !== undefined && given.length > 0 && present(given).length === 0

/** A field that may be missing, and whose fault costs all of what it is in: nobody guesses it. */
export const decisive = <T extends v.GenericSchema>(
  field: T,
  otherwise: v.InferInput<T> & v.InferOutput<T>,
) =>
  v.optional(
    v.nullable(field, () => otherwise),
    () => otherwise,
  )

type Keys = readonly string[]

/** Of a `fieldPath`. */
const keysOf = ({ field }: Fault): Keys =>
  Array.from(
    field.matchAll(/\["(.*?)"\]|[^.[\]]+/g),
    ([plain, quoted]) => quoted ?? plain,
  )

/** The smallest part around a value that may be left out; empty when that is everything. */
const partAround = (schema: unknown, keys: Keys): Keys => {
  let at = schema
  let length = 0
  for (const [i, key] of keys.entries()) {
    while (peek(at, 'wrapped') !== undefined) at = peek(at, 'wrapped')
    const item = peek(at, 'item')
    at = item ?? peek(peek(at, 'entries'), key)
    const type = peek(at, 'type')
    if (type === (item === undefined ? 'nullish' : 'undefinedable')) length = i + 1
  }
  return keys.slice(0, length)
}

/** Copies a value without what is at a place. What it has copied once is not copied again. */
const cutter = () => {
  const copies = new Set<unknown>()
  const cut = (raw: unknown, [key, ...inner]: Keys): unknown => {
    if (key === undefined) return undefined
    if (typeof raw !== 'object' || raw === null) return raw
    const fresh = () => (Array.isArray(raw) ? [...raw] : { ...raw })
    const copy = (copies.has(raw) ? raw : fresh()) as Record<string, unknown>
    copies.add(copy)
    copy[key] = cut(copy[key], inner)
    return copy
  }
  return cut
}

interface Sound<S extends v.GenericSchema> {
  /** Undefined when what is bad can't be left out. */
  readonly body: v.InferOutput<S> | undefined
  readonly faults: readonly Fault[]
}

/**
 * What is sound of a raw value: each bad value costs the smallest part around it that may be
 * left out. `faultsOf` says what the schema can't.
 */
export const soundParts = <S extends v.GenericSchema>(
  schema: S,
  raw: unknown,
  faultsOf: (body: v.InferOutput<S>) => readonly Fault[] = () => [],
): Sound<S> => {
  const faults = new Map<string, Fault>()
  const cut = cutter()
  let value = raw
  const leaveOut = (found: readonly Fault[]): boolean => {
    const places = found.map(fault => partAround(schema, keysOf(fault)))
    for (const fault of found)
      if (!faults.has(fault.field)) faults.set(fault.field, fault)
    value = places.reduce(cut, value)
    return value !== undefined
  }
  const sound = (): v.InferOutput<S> | undefined => {
    const parsed = v.safeParse(schema, value)
    if (parsed.success) return parsed.output
    return leaveOut(parsed.issues.map(faultOf)) ? sound() : undefined
  }
  let body = sound()
  const more = body === undefined ? [] : faultsOf(body)
  if (more.length > 0) body = leaveOut(more) ? sound() : undefined
  return { body, faults: [...faults.values()] }
}
