import * as v from 'valibot'
import type { DeepReadonly } from '../util/deep-readonly.ts'
import { parseDuration } from '../util/duration.ts'
import { show } from '../util/printable.ts'
import { isNot, wholeNumber } from '../util/schema.ts'
import { suggest } from '../util/suggest.ts'
import { checkForm, nameFault, nameForm, pathFault } from './read-check.ts'
import { readBytes } from './escapes.ts'

// As in source/decode/fields.ts only checks, so that a refused check is told with all its faults.

/** Text in which `faultOf` finds nothing; '' is none. */
const sound = (right: string, faultOf: (given: string) => string) =>
  v.pipe(
    v.string(isNot(right)),
    v.check(
      given => faultOf(given) === '',
      issue => faultOf(issue.input),
    ),
  )

const shortestMs = 100
const longestMs = 3_600_000

/** Milliseconds; undefined where the text is no duration, or out of bounds. */
export const readTime = (text: string): number | undefined => {
  const ms = parseDuration(text)
  return ms !== undefined && ms >= shortestMs && ms <= longestMs
    ? Math.round(ms)
    : undefined
}

const timeForm = 'a duration from 100ms to 1h, like 2s'
const time = sound(timeForm, given =>
  readTime(given) === undefined ? `${show(given)} is not ${timeForm}` : '',
)

const bytesForm = String.raw`text with no escapes but \r \n \t \0 \\ and \xHH`
const bytesFault = (given: string): string =>
  readBytes(given) === undefined ? `${show(given)} is not ${bytesForm}` : ''

const expectForm = `text that the answer begins with, or a regular expression like /^220 /`
const expectFault = (given: string): string => {
  const pattern = patternOf(given)
  if (given === '') return `${show(given)} is not ${expectForm}`
  if (pattern === undefined) return bytesFault(given)
  if (/[^\x20-\x7e]/.test(pattern))
    return String.raw`${show(given)} has more than ASCII; give bytes as \xHH`
  return isExpression(pattern) ? '' : `${show(given)} is not a regular expression`
}

const isExpression = (pattern: string): boolean => {
  try {
    void new RegExp(pattern)
    return true
  } catch {
    return false
  }
}

/** What is between the slashes; undefined for plain text. */
export const patternOf = (expect: string): string | undefined =>
  /^\/(.+)\/$/s.exec(expect)?.[1]

const statusForm = 'an HTTP status or a list of them: 200 or [200, 429]'
const notStatus = (issue: { readonly input: unknown }): string =>
  Array.isArray(issue.input)
    ? `has something else than statuses in its list, or nothing; give ${statusForm}`
    : isNot(statusForm)(issue)
const status = wholeNumber(100, 599, 'an HTTP status: 100 to 599')
const times = wholeNumber(1, 100, 'a number of checks: 1 to 100')

const types = ['tcp', 'http', 'postgres', 'redis', 'mysql'] as const

/** All fields of a check that is given as an object; `type` says which of them it has. */
export const checkFields = {
  type: v.optional(v.picklist(types, isNot('tcp, http, postgres, redis or mysql'))),
  port: v.optional(wholeNumber(1, 65_535, 'a port: 1 to 65535')),
  path: v.optional(sound('a path, like /primary', pathFault)),
  expectStatus: v.optional(
    v.union([status, v.pipe(v.array(status), v.minLength(1, notStatus))], notStatus),
  ),
  user: v.optional(sound(nameForm, nameFault)),
  database: v.optional(sound(nameForm, nameFault)),
  role: v.optional(v.picklist(['primary', 'replica'], isNot('primary or replica'))),
  send: v.optional(sound(bytesForm, bytesFault)),
  expect: v.optional(sound(expectForm, expectFault)),
  interval: v.optional(time),
  timeout: v.optional(time),
  fall: v.optional(times),
  rise: v.optional(times),
  init: v.optional(v.picklist(['up', 'down'], isNot('up or down'))),
}

const fieldsShape = v.object(checkFields, isNot(`${checkForm}, or an object`))

/** One without faults. */
export type RawCheck = DeepReadonly<v.InferOutput<typeof fieldsShape>>

/** What is wrong, and in which field of an object; '' is the whole. */
export interface CheckFault {
  readonly field: string
  readonly message: string
}

const common = new Set(['port', 'interval', 'timeout', 'fall', 'rise', 'init'])
const fieldsOf: Readonly<Record<(typeof types)[number], readonly string[]>> = {
  tcp: [],
  http: ['path', 'expectStatus'],
  postgres: ['user', 'database'],
  redis: ['role'],
  mysql: ['user'],
}

/** All that is wrong with a check that is given as an object. */
export const fieldFaults = (given: object): readonly CheckFault[] => {
  const { issues = [] } = v.safeParse(fieldsShape, given)
  const wrong = issues.map(({ path = [], message }) => ({
    field: path.map(({ key }) => String(key)).join('.'),
    message,
  }))
  return [...strayFaults(given), ...wrong]
}

const strayFaults = (given: object): readonly CheckFault[] => {
  const names = Object.keys(given)
  const unknown = names
    .filter(name => !Object.hasOwn(checkFields, name))
    .map(field => ({ field, message: unknownField(field) }))
  const { type, send } = given as { readonly type?: unknown; readonly send?: unknown }
  const known = types.find(each => each === type)
  if (known === undefined && type !== undefined) return unknown // The type is the fault.
  const [kind, own] =
    known === undefined
      ? ['send and expect', ['send', 'expect']]
      : [known, ['type', ...fieldsOf[known]]]
  const stray = names
    .filter(name => Object.hasOwn(checkFields, name))
    .filter(name => !common.has(name) && !own.includes(name))
    .map(field => ({ field, message: `is not for a check by ${kind}; leave it out` }))
  const wanted = known === undefined && !names.includes('expect')
  const field = send === undefined ? 'type' : 'expect'
  const missing = {
    field,
    message:
      field === 'type'
        ? `is missing; give ${types.join(', ')}`
        : `is missing; give ${expectForm}`,
  }
  return [...unknown, ...(wanted ? [missing] : stray)]
}

const unknownField = (name: string): string => {
  const meant = suggest(name, Object.keys(checkFields))
  return meant === undefined
    ? `is unknown; give ${Object.keys(checkFields).join(', ')}`
    : `is unknown; did you mean ${meant}?`
}
