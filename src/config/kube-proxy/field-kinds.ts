import * as v from 'valibot'
import { isNot } from '../../util/schema.ts'
import { goDuration, goMilliseconds, goNanoseconds } from '../../util/duration.ts'
import type { VModuleItem } from '../types/basic.ts'

/** One field of KubeProxyConfiguration. */
export type Field<T> = v.GenericSchema<unknown, T> & {
  /** As a user would type it for the flag of the field. */
  readonly defaultText: string
  /** Whether a value in a file stands for the default. */
  isZero(given: unknown): boolean
}

/** Fields under a name of their own. */
export interface Section {
  readonly entries: Entries
}

export interface Entries {
  readonly [name: string]: Field<unknown> | (v.GenericSchema & Section)
}

/** True for what is an object in JSON. */
export const isMapping = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given)

/** `byDefault`: as a file would have it; undefined for a field that then is left out. */
const field = <T>(
  type: v.GenericSchema<unknown, T>,
  byDefault: T | undefined,
  isZero: (given: unknown) => boolean,
): Field<T> => ({
  ...(v.nullish(type, byDefault) as v.GenericSchema<unknown, T>),
  defaultText: String(byDefault ?? ''),
  isZero,
})

const isEmptyList = (given: unknown): boolean =>
  Array.isArray(given) && given.length === 0

const checked = <T>(holds: (given: unknown) => boolean, right: string) =>
  v.custom<T>(holds, isNot(right))

const texts = v.string(isNot('text'))

const spanRight = 'a duration like 30s or 1m30s'
const spans = v.pipe(
  v.string(isNot(spanRight)),
  v.check(given => goDuration(given) !== undefined, isNot(spanRight)),
  v.transform(given => goDuration(given) ?? given),
)

/** Nanoseconds where it is a number. */
const spansOrNanoseconds = v.pipe(
  checked<string | number>(
    given =>
      typeof given === 'number'
        ? Number.isSafeInteger(given)
        : typeof given === 'string' && goDuration(given) !== undefined,
    spanRight,
  ),
  v.transform(given =>
    typeof given === 'number' ? goNanoseconds(given) : (goDuration(given) ?? given),
  ),
)

const isInt32 = (given: unknown): boolean =>
  typeof given === 'number' && Number.isInteger(given) && Math.abs(given) < 2 ** 31

const quantities = v.pipe(
  checked<string | number>(
    given => /^\d{1,15}(?:\.\d{1,9})?(?:[KMGTPE]i|[numkMGTPE])?$/.test(String(given)),
    'a quantity like "0" or 64Ki',
  ),
  v.transform(String),
)

const isVModuleItem = (given: unknown): boolean =>
  isMapping(given) &&
  typeof given['filePattern'] === 'string' &&
  isInt32(given['verbosity'])

const isZeroSpan = (given: unknown): boolean =>
  typeof given === 'string' && goMilliseconds(given) === 0

export const text = (byDefault = '') =>
  field<string>(texts, byDefault, given => given === '')

/** In Go's syntax; kept as Go writes it, `1h0m0s` for `60m`. */
export const span = (byDefault = '0s') => field<string>(spans, byDefault, isZeroSpan)

/** A duration that may also be a whole number, of nanoseconds. */
export const spanOrNanoseconds = (byDefault: string) =>
  field<string>(spansOrNanoseconds, byDefault, given => given === 0 || isZeroSpan(given))

export const onOff = (byDefault = false) =>
  field<boolean>(v.boolean(isNot('true or false')), byDefault, given => given === false)

/** One that only a function can tell. */
const checkedField = <T>(
  holds: (given: unknown) => boolean,
  right: string,
  byDefault: T,
  isZero: (given: unknown) => boolean,
) => field<T>(checked<T>(holds, right), byDefault, isZero)

const isZeroNumber = (given: unknown): boolean => given === 0

export const number = (byDefault = 0) =>
  checkedField<number>(Number.isFinite, 'a number', byDefault, isZeroNumber)

export const int32 = (byDefault = 0) =>
  checkedField<number>(isInt32, 'a whole number of 32 bits', byDefault, isZeroNumber)

/** null is what an empty list is written as. */
export const strings = () =>
  checkedField<readonly string[] | null>(
    given => Array.isArray(given) && given.every(item => typeof item === 'string'),
    'a list of texts',
    null,
    isEmptyList,
  )

/** A quantity of Kubernetes, `"0"` or `64Ki`. Kept as text. */
export const quantity = () => field<string>(quantities, '0', () => false)

export const featureGates = () =>
  checkedField<Readonly<Record<string, boolean>> | undefined>(
    given =>
      isMapping(given) && Object.values(given).every(on => typeof on === 'boolean'),
    'a mapping of names to true or false',
    undefined,
    given => isMapping(given) && Object.keys(given).length === 0,
  )

export const vmodule = () =>
  checkedField<readonly VModuleItem[] | undefined>(
    given => Array.isArray(given) && given.every(isVModuleItem),
    'a list of objects with filePattern and verbosity',
    undefined,
    isEmptyList,
  )

/** Of a field that is a pointer upstream: zero is a value of its own, and stays. */
export const keepZero = <T>(given: Field<T>): Field<T> => ({
  ...given,
  isZero: () => false,
})

/** Left out of what is written unless it is set. */
export const optional = <T>(given: Field<T>): Field<T | undefined> =>
  ({ ...given, default: undefined }) as Field<T | undefined>

export const section = <const E extends Entries>(entries: E) => ({
  ...v.nullish(
    v.pipe(checked<Record<string, unknown>>(isMapping, 'an object'), v.object(entries)),
    {},
  ),
  entries,
})
