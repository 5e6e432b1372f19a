import * as v from 'valibot'
import { show } from '../util/printable.ts'
import { type Check, type CheckRules, usualRules } from './check.ts'
import {
  type CheckFault,
  fieldFaults,
  patternOf,
  type RawCheck,
  readTime,
} from './check-fields.ts'
import { readBytes } from './escapes.ts'
import { checkForm, readCheck, usualInit, usualUser } from './read-check.ts'

/** A check as a route asks for it. */
export interface CheckOption {
  readonly check: Check
  readonly rules: CheckRules
}

/** All that is wrong with the option `check`, a text or an object. */
export const checkFaults = (given: unknown): readonly CheckFault[] => {
  if (typeof given === 'string') {
    const read = readCheck(given)
    return typeof read === 'string' ? [{ field: '', message: read }] : []
  }
  if (typeof given === 'object' && given !== null && !Array.isArray(given))
    return fieldFaults(given)
  return [{ field: '', message: `${show(given)} is not ${checkForm}` }]
}

/** For the shape of a route: faults have the path of their field. */
export const checkShape = v.pipe(
  v.custom<string | RawCheck>(() => true),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return
    const input: unknown = dataset.value
    for (const { field, message } of checkFaults(input))
      addIssue(issueOf(input, field, message))
  }),
)

const issueOf = (input: unknown, field: string, message: string) => {
  if (field === '') return { message }
  const object = input as Record<string, unknown>
  const value = object[field]
  const at = {
    type: 'object',
    origin: 'value',
    input: object,
    key: field,
    value,
  } as const
  return { message, input: value, path: [at] satisfies [v.ObjectPathItem] }
}

/** Of one without faults. */
export const decodeCheck = (given: string | RawCheck): CheckOption => {
  const fields = typeof given === 'string' ? {} : given
  const check = typeof given === 'string' ? (readCheck(given) as Check) : checkOf(given)
  return {
    check,
    rules: {
      intervalMs: timeOf(fields.interval) ?? usualRules.intervalMs,
      timeoutMs: timeOf(fields.timeout) ?? usualRules.timeoutMs,
      fall: fields.fall ?? usualRules.fall,
      rise: fields.rise ?? usualRules.rise,
      init: fields.init ?? usualInit(check),
    },
  }
}

const timeOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : readTime(text)

const checkOf = (raw: RawCheck): Check => {
  const port = raw.port === undefined ? {} : { port: raw.port }
  switch (raw.type) {
    case 'tcp':
      return { type: 'tcp', ...port }
    case 'http': {
      const statuses = [raw.expectStatus ?? 200].flat()
      return { type: 'http', ...port, path: raw.path ?? '/', statuses }
    }
    case 'postgres': {
      const user = raw.user ?? usualUser.postgres
      return { type: 'postgres', ...port, user, database: raw.database ?? user }
    }
    case 'redis':
      return { type: 'redis', ...port, ...(raw.role && { role: raw.role }) }
    case 'mysql':
      return { type: 'mysql', ...port, user: raw.user ?? usualUser.mysql }
    case undefined:
      break
  }
  const { send = '', expect = '' } = raw
  const pattern = patternOf(expect)
  const expected =
    pattern === undefined ? { prefix: readBytes(expect) ?? '' } : { pattern }
  return { type: 'expect', ...port, send: readBytes(send) ?? '', expect: expected }
}
