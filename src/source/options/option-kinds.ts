import * as v from 'valibot'
import { parseDuration } from '../../util/duration.ts'
import { isNot } from '../../util/schema.ts'

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

/** `least` and `most` in milliseconds; `form` says them. */
export const durationText = (
  least: number,
  most: number,
  form: string,
  example: string,
) => {
  const holds = (given: string): boolean => readMs(given, least, most) !== undefined
  return checkedText(
    holds,
    `a duration ${form}, like ${example}`,
    durationPattern,
    example,
  )
}

/** Milliseconds; undefined where the text is none, or out of bounds. */
const readMs = (text: string, least: number, most: number): number | undefined => {
  const ms = parseDuration(text)
  return ms !== undefined && ms >= least && ms <= most ? Math.round(ms) : undefined
}

/** Of a text that a schema of durations has found right; undefined where there is none. */
export const msOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : readMs(text, 0, Number.POSITIVE_INFINITY)

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

/** Of options that are each there or not. */
export type Given<Schemas extends Readonly<Record<string, v.GenericSchema>>> = {
  readonly [Name in keyof Schemas]?: v.InferOutput<Schemas[Name]> | undefined
}

/** One row of the options: what it takes, what the docs say of it, and what they give as an example. */
export const described = <S extends v.GenericSchema>(
  schema: S,
  text: string,
  ...examples: v.InferOutput<S>[]
) => v.pipe(schema, v.description(text), v.examples(examples))
