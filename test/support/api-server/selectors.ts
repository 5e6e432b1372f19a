import { ApiError } from './api-error.ts'
import { unknownField, unsupportedField } from './refusals.ts'
import type { Stored } from './stored.ts'

export type Selector = (object: Stored) => boolean

type Test = (labels: Readonly<Record<string, string>>) => boolean

const name = String.raw`[\w./-]+`
const setForm = new RegExp(String.raw`^(${name})\s+(in|notin)\s+\(([^)]*)\)$`)
const equalForm = new RegExp(String.raw`^(${name})\s*(==|=|!=)\s*([\w.-]*)$`)
const existsForm = new RegExp(String.raw`^(!?)\s*(${name})$`)

/** A labelSelector of the API, `a=b,!c,d in (e,f)`. Throws 400 for what is none. */
export const labelSelector = (text: string): Selector => {
  // Commas also stand between the values of a set.
  const tests = text
    .split(/,(?![^(]*\))/)
    .map(part => part.trim())
    .filter(part => part !== '')
    .map(labelTest)
  return ({ labels }) => tests.every(test => test(labels))
}

const labelTest = (text: string): Test => {
  const [, key = '', operator, list = ''] = setForm.exec(text) ?? []
  if (operator !== undefined) {
    const values = new Set(list.split(',').map(value => value.trim()))
    // `notin` is also true of objects without the label.
    return labels => values.has(labels[key] ?? '\0') === (operator === 'in')
  }
  const [, left = '', sign, right = ''] = equalForm.exec(text) ?? []
  if (sign !== undefined) return labels => (labels[left] === right) === (sign !== '!=')
  const [, not, label = ''] = existsForm.exec(text) ?? []
  if (not === undefined)
    throw new ApiError(
      400,
      `unable to parse requirement: found '${text}', expected: identifier`,
    )
  return labels => (labels[label] !== undefined) === (not === '')
}

/**
 * A fieldSelector of the API, `metadata.name=a,spec.clusterIP!=None`; `known` are the
 * fields that the kind has besides those of all, undefined when none.
 */
export const fieldSelector = (
  text: string,
  known: readonly string[] | undefined,
): Selector => {
  const tests = text
    .split(',')
    .filter(part => part !== '')
    .map(part => fieldTest(part, text, known))
  return ({ fields }) => tests.every(test => test(fields))
}

const ofAll: ReadonlySet<string> = new Set(['metadata.name', 'metadata.namespace'])

const fieldTest = (
  part: string,
  text: string,
  known: readonly string[] | undefined,
): Test => {
  const [, path = '', sign, wanted = ''] = /^([^=!]+)(==|=|!=)(.*)$/.exec(part) ?? []
  if (sign === undefined)
    throw new ApiError(400, `invalid selector: '${text}'; can't understand '${part}'`)
  if (!ofAll.has(path) && !known?.includes(path))
    throw known === undefined ? unknownField(path) : unsupportedField(path)
  return fields => (fields[path] === wanted) === (sign !== '!=')
}
