import * as v from 'valibot'
import { show } from './printable.ts'

/** `"x" is not ...`, for what a schema refuses; `right` is what would be right. */
export const isNot =
  (right: string) =>
  (issue: { readonly input: unknown }): string =>
    `${show(issue.input)} is not ${right}`

export const wholeNumber = (lowest: number, highest: number, right: string) =>
  v.pipe(
    v.number(isNot(right)),
    v.check(n => Number.isInteger(n) && n >= lowest && n <= highest, isNot(right)),
  )
