import { parseBool } from '../go-bool.ts'
import { goDuration, goNanoseconds } from '../../util/duration.ts'
import { parseVModule, type VModuleItem } from '../vmodule.ts'

/** One field of KubeProxyConfiguration: how it is read, written and filled in. */
export interface Leaf<T> {
  readonly kind: 'leaf'
  /** What a value has to be, for messages: `text`. */
  readonly right: string
  readonly default: T
  /** What JSON or YAML hold, turned into a value; undefined when it is of another type. */
  read(given: unknown): T | undefined
  /** Whether the default takes the place of a value that a file gives. */
  isUnset(value: T): boolean
  /** From texts that its flag takes. */
  fromTexts(texts: readonly string[]): T
  /** A text that its flag takes. */
  toText(value: T): string
}

/** A field that is only there when it is set. */
export interface OptionalLeaf<T> extends Leaf<T> {
  readonly optional: true
}

type Kind<T> = Omit<Leaf<T>, 'kind' | 'default' | 'isUnset'> & { readonly zero: T }

const isEmpty = (value: unknown): boolean =>
  value === null || (typeof value === 'object' && Object.keys(value).length === 0)

const leaf = <T>({ zero, ...rest }: Kind<T>, byDefault: T): Leaf<T> => ({
  kind: 'leaf',
  ...rest,
  default: byDefault,
  isUnset: value => value === zero || isEmpty(value),
})

const lastOf = (texts: readonly string[]): string => texts.at(-1) ?? ''

const texts: Kind<string> = {
  right: 'text',
  zero: '',
  read: given => (typeof given === 'string' ? given : undefined),
  fromTexts: lastOf,
  toText: value => value,
}

const durations: Kind<string> = {
  right: 'a duration like 30s or 1m30s',
  zero: '0s',
  read: given => (typeof given === 'string' ? goDuration(given) : undefined),
  fromTexts: given => goDuration(lastOf(given)) ?? '0s',
  toText: value => value,
}

const switches: Kind<boolean> = {
  right: 'true or false',
  zero: false,
  read: given => (typeof given === 'boolean' ? given : undefined),
  fromTexts: given => parseBool(lastOf(given)) ?? false,
  toText: String,
}

const numbers: Kind<number> = {
  right: 'a number',
  zero: 0,
  read: given =>
    typeof given === 'number' && Number.isFinite(given) ? given : undefined,
  fromTexts: given => Number(lastOf(given)),
  toText: String,
}

const int32s: Kind<number> = {
  ...numbers,
  right: 'a whole number of 32 bits',
  read: given =>
    typeof given === 'number' && Number.isInteger(given) && Math.abs(given) < 2 ** 31
      ? given
      : undefined,
}

const lists: Kind<readonly string[] | null> = {
  right: 'a list of texts',
  zero: null,
  read: given =>
    Array.isArray(given) && given.every(item => typeof item === 'string')
      ? given
      : undefined,
  fromTexts: given =>
    given.flatMap(each => (each === '' ? [] : each.split(','))).map(each => each.trim()),
  // null is what an empty list is written as.
  toText: value => (Array.isArray(value) ? value.join(',') : ''),
}

const gates: Kind<Readonly<Record<string, boolean>>> = {
  right: 'a mapping of names to true or false',
  zero: {},
  read: given =>
    isMapping(given) && Object.values(given).every(on => typeof on === 'boolean')
      ? (given as Record<string, boolean>)
      : undefined,
  fromTexts: given => {
    const pairs = given.flatMap(each => each.split(',')).filter(each => each !== '')
    return Object.fromEntries(
      pairs.map(pair => {
        const [name = '', on = ''] = pair.split('=').map(each => each.trim())
        return [name, parseBool(on) ?? false]
      }),
    )
  },
  toText: value =>
    Object.entries(value)
      .map(pair => pair.join('='))
      .join(','),
}

const modules: Kind<readonly VModuleItem[]> = {
  right: 'a list of objects with filePattern and verbosity',
  zero: [],
  read: given => (Array.isArray(given) && given.every(isVModuleItem) ? given : undefined),
  fromTexts: given => given.flatMap(each => parseVModule(each)),
  toText: value =>
    value.map(({ filePattern, verbosity }) => `${filePattern}=${verbosity}`).join(','),
}

const isVModuleItem = (given: unknown): boolean =>
  isMapping(given) &&
  typeof given['filePattern'] === 'string' &&
  int32s.read(given['verbosity']) !== undefined

/** True for what is an object in JSON. */
export const isMapping = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given)

export const text = (byDefault = ''): Leaf<string> => leaf(texts, byDefault)

/** In Go's syntax, as `1h0m0s`. */
export const span = (byDefault = '0s'): Leaf<string> => leaf(durations, byDefault)

/** A duration that may also be a whole number, of nanoseconds. */
export const spanOrNanoseconds = (byDefault: string): Leaf<string> =>
  leaf(
    {
      ...durations,
      read: given =>
        typeof given === 'number' && Number.isSafeInteger(given)
          ? goNanoseconds(given)
          : durations.read(given),
    },
    byDefault,
  )

export const onOff = (byDefault = false): Leaf<boolean> => leaf(switches, byDefault)

export const number = (byDefault = 0): Leaf<number> => leaf(numbers, byDefault)

export const int32 = (byDefault = 0): Leaf<number> => leaf(int32s, byDefault)

export const strings = (): Leaf<readonly string[] | null> => leaf(lists, null)

export const featureGates = (): Leaf<Readonly<Record<string, boolean>>> => leaf(gates, {})

export const vmodule = (): Leaf<readonly VModuleItem[]> => leaf(modules, [])

/** A quantity of Kubernetes, `"0"` or `64Ki`. Kept as text. */
export const quantity = (): Leaf<string> =>
  leaf(
    {
      ...texts,
      right: 'a quantity like "0" or 64Ki',
      zero: '0',
      read: given =>
        /^\d{1,15}(?:\.\d{1,9})?(?:[KMGTPE]i|[numkMGTPE])?$/.test(String(given))
          ? String(given)
          : undefined,
    },
    '0',
  )

/** Of a field that is a pointer upstream: zero is a value of its own, and stays. */
export const keepZero = <T>(given: Leaf<T>): Leaf<T> => ({
  ...given,
  isUnset: value => value === null,
})

/** Left out of what is written unless it is set. */
export const optional = <T>(given: Leaf<T>): OptionalLeaf<T> => ({
  ...given,
  optional: true,
})
