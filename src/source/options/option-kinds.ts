import * as v from 'valibot'
import { parseDuration } from '../../util/duration.ts'
import { isNot } from '../../util/schema.ts'
import { orList } from '../../util/suggest.ts'

// What options are made of. Only checks, as in decode/fields.ts.

/** A text that has to hold. `pattern`: as much of that as an editor knows. */
export const checkedText = (
  holds: (given: string) => boolean,
  right: string,
  pattern: string,
  example: string,
) =>
  v.pipe(
    v.string(isNot(right)),
    v.check(holds, isNot(right)),
    v.metadata({ pattern }),
    v.examples([example]),
  )

const durationPattern = String.raw`^([0-9.]+(ns|us|µs|ms|s|m|h))+$`

/** From `least` to `most`. */
export const durationText = (least: string, most: string, example: string) => {
  const holds = (given: string): boolean => {
    const ms = parseDuration(given) ?? Number.NaN
    return ms >= Number(parseDuration(least)) && ms <= Number(parseDuration(most))
  }
  return checkedText(
    holds,
    `a duration from ${least} to ${most}, like ${example}`,
    durationPattern,
    example,
  )
}

/** Milliseconds, of a text that a schema of durations has found right; undefined where there is none. */
export const msOf = (text: string | undefined): number | undefined => {
  const ms = text === undefined ? undefined : parseDuration(text)
  return ms === undefined ? undefined : Math.round(ms)
}

/** `what`: a number of clients. */
export const countOf = (what: string, most: number, example: number) => {
  const right = `a number of ${what} from 1 to ${most}, like ${example}`
  return v.pipe(
    v.number(isNot(right)),
    v.integer(isNot(right)),
    v.minValue(1, isNot(right)),
    v.maxValue(most, isNot(right)),
    v.examples([example]),
  )
}

/** One of a few words. */
export const choice = <const T extends readonly string[]>(
  words: T,
  description: string,
  example: T[number],
) =>
  v.pipe(
    v.picklist(words, isNot(orList(words))),
    v.description(description),
    v.examples([example]),
  )

/** Of options that are each there or not. */
export type Given<Schemas extends Readonly<Record<string, v.GenericSchema>>> = {
  readonly [Name in keyof Schemas]?: v.InferOutput<Schemas[Name]> | undefined
}

/** An option as it is written in a flag and an annotation: `retry-early-close`. */
export const flagName = (option: string): string =>
  option.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)

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
