import * as v from 'valibot'
import { parseDuration } from './duration.ts'
import { show } from './printable.ts'
import { orList } from './suggest.ts'

/** `"x" is not ...`, for what a schema refuses; `right` is what would be right. */
export const isNot =
  (right: string) =>
  (issue: { readonly input: unknown }): string =>
    `${show(issue.input)} is not ${right}`

/** One of a few words. */
export const oneOf = <const T extends readonly string[]>(words: T) =>
  v.picklist(words, isNot(orList(words)))

export const wholeNumber = (lowest: number, highest: number, right: string) =>
  v.pipe(
    v.number(isNot(right)),
    v.check(n => Number.isInteger(n) && n >= lowest && n <= highest, isNot(right)),
  )

/** A text in which `faultOf` finds nothing: '' is none. */
export const sound = (right: string, faultOf: (given: string) => string) =>
  v.pipe(
    v.string(isNot(right)),
    v.check(
      given => faultOf(given) === '',
      issue => faultOf(issue.input),
    ),
  )

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

/** Milliseconds, of a text that a schema of durations has found right. */
export const msOf = (text: string): number => Math.round(parseDuration(text) ?? 0)

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
