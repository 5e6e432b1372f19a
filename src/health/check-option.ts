import * as v from 'valibot'
import type { DeepReadonly } from '../util/deep-readonly.ts'
import { show, peek } from '../util/printable.ts'
import { durationText, isNot, msOf, oneOf, sound, wholeNumber } from '../util/schema.ts'
import { suggest, unknownName } from '../util/suggest.ts'
import { type CheckRules, usualRules } from './check.ts'

// As in source/decode/fields.ts only checks, so that a refused check is told with all its faults.

const checkForm =
  'tcp, http://:PORT/PATH, postgres, redis or mysql, like http://:8008/primary'

const time = durationText('100ms', '1h', '2s')

const pathFault = (path: string): string =>
  /^\/[\x21-\x7e]*$/.test(path) && !path.includes('#') && path.length <= 2000
    ? ''
    : `path ${show(path)} is not one like /primary or /replica?lag=10MB`

const nameForm = 'a name: 1 to 63 characters without spaces'
const nameFault = (name: string): string =>
  /^[^\0-\x20\x7f]{1,63}$/.test(name) ? '' : `${show(name)} is not ${nameForm}`

const textOf = (right: string, holds: RegExp) =>
  sound(right, given => (holds.test(given) ? '' : `${show(given)} is not ${right}`))

const file = textOf('the absolute path of a file', /^\/[^\0]{1,4000}$/)

/** What is given is not said: nobody is to read it. */
const secret = v.pipe(
  v.string('is not text; put it in quotes'),
  v.regex(/^[\t -~]{1,2000}$/, 'is empty, too long, or has more than printable ASCII'),
)

/** Those of a request that is a check's own are not among them (RFC 9110, 5.6.2). */
const header =
  /^(?!(host|connection|content-length|transfer-encoding)$)[\w!#$%&'*+.^`|~-]+$/i

const headersFault = isNot('a mapping of headers, like {Authorization: Basic YTpi}')
const headers = v.pipe(
  v.custom<object>(given => !Array.isArray(given), headersFault),
  v.record(
    v.pipe(v.string(), v.regex(header, 'is not a header that can be given')),
    secret,
    headersFault,
  ),
)

const named: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  0: '\0',
  '\\': '\\',
}

/**
 * Bytes as they are written in options: `\r`, `\n`, `\t`, `\0`, `\\` and `\x1f`, all else in
 * UTF-8. Each character of the result is a byte. Undefined where a backslash stands before
 * anything else.
 */
export const readBytes = (text: string): string | undefined => {
  let isSound = true
  const bytes = Buffer.from(text, 'utf8')
    .toString('latin1')
    .replaceAll(/\\(x[\da-f]{2}|.?)/gis, (_, escape: string) => {
      if (escape.length === 3) return String.fromCharCode(Number(`0${escape}`))
      const char = named[escape]
      isSound &&= char !== undefined
      return char ?? ''
    })
  return isSound ? bytes : undefined
}

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
  type: v.optional(oneOf(types)),
  port: v.optional(wholeNumber(1, 65_535, 'a port: 1 to 65535')),
  path: v.optional(sound('a path, like /primary', pathFault)),
  expectStatus: v.optional(
    v.union([status, v.pipe(v.array(status), v.minLength(1, notStatus))], notStatus),
  ),
  method: v.optional(oneOf(['GET', 'HEAD', 'OPTIONS', 'POST'])),
  host: v.optional(textOf('a host name, with a port or not', /^[\w.:[\]-]{1,255}$/)),
  headers: v.optional(headers),
  tls: v.optional(v.boolean(isNot('true or false'))),
  caFile: v.optional(file),
  certFile: v.optional(file),
  keyFile: v.optional(file),
  verify: v.optional(v.picklist(['none'], isNot('none; leave it out to verify'))),
  user: v.optional(sound(nameForm, nameFault)),
  password: v.optional(secret),
  database: v.optional(sound(nameForm, nameFault)),
  role: v.optional(oneOf(['primary', 'replica'])),
  send: v.optional(sound(bytesForm, bytesFault)),
  expect: v.optional(sound(expectForm, expectFault)),
  interval: v.optional(time),
  timeout: v.optional(time),
  fall: v.optional(times),
  rise: v.optional(times),
  init: v.optional(oneOf(['up', 'down'])),
}

const fieldsShape = v.object(checkFields, isNot(`${checkForm}, or an object`))

/**
 * What is asked of an endpoint to know whether it is up: one without faults. Without a type it is what
 * is sent and expected. Plain data, comparable by value.
 */
export type Check = DeepReadonly<v.InferOutput<typeof fieldsShape>>

/** What is wrong, and in which field of an object; '' is the whole. */
interface CheckFault {
  readonly field: string
  readonly message: string
}

const common = new Set(['port', 'interval', 'timeout', 'fall', 'rise', 'init'])
const tlsFields = ['tls', 'caFile', 'certFile', 'keyFile', 'verify'] as const
const fieldsOf: Readonly<Record<(typeof types)[number], readonly string[]>> = {
  tcp: [],
  http: ['path', 'expectStatus', 'method', 'host', 'headers', ...tlsFields],
  postgres: ['user', 'database'],
  redis: ['role', 'user', 'password'],
  mysql: ['user'],
}

/** All that is wrong with a check that is given as an object. */
const fieldFaults = (given: object): readonly CheckFault[] => {
  const { issues = [] } = v.safeParse(fieldsShape, given)
  const wrong = issues.map(({ path = [], message }) => ({
    field: path.map(({ key }) => String(key)).join('.'),
    message,
  }))
  return [...strayFaults(given), ...wrong, ...idleFaults(given)]
}

/** Fields, each with others without which it does nothing. */
const needs: Readonly<Record<string, readonly string[]>> = {
  caFile: ['tls'],
  certFile: ['tls', 'keyFile'],
  keyFile: ['certFile'],
  verify: ['tls'],
  user: ['password'],
}

const idleFaults = (given: object): readonly CheckFault[] =>
  Object.entries(needs)
    .filter(([field]) => field !== 'user' || peek(given, 'type') === 'redis')
    .flatMap(([field, all]) => {
      const missing = all.filter(other => (peek(given, other) ?? false) === false)
      return Object.hasOwn(given, field)
        ? missing.map(other => ({ field, message: withoutEffect(other) }))
        : []
    })

const withoutEffect = (other: string): string =>
  `does nothing without ${other}; give that as well`

const strayFaults = (given: object): readonly CheckFault[] => {
  const names = Object.keys(given)
  const unknown = names
    .filter(name => !Object.hasOwn(checkFields, name))
    .map(field => ({ field, message: unknownName(field, Object.keys(checkFields)) }))
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
    .map(field => ({
      field,
      message: `does not apply to a check by ${kind}; leave it out`,
    }))
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
  v.custom<string | Check>(() => true),
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
export const decodeCheck = (given: string | Check): CheckOption => {
  const check = typeof given === 'string' ? (readCheck(given) as Check) : given
  const { interval, timeout, fall, rise, init } = check
  const { intervalMs, timeoutMs } = usualRules
  return {
    check,
    rules: {
      intervalMs: interval === undefined ? intervalMs : msOf(interval),
      timeoutMs: timeout === undefined ? timeoutMs : msOf(timeout),
      fall: fall ?? usualRules.fall,
      rise: rise ?? usualRules.rise,
      // A role that a server has not been shown to have is not to be taken for granted.
      init: init ?? (asksForRole(check) ? 'down' : usualRules.init),
    },
  }
}

/** Whether it asks for more than that a server is there, as for the one that takes writes. */
export const asksForRole = ({ type, role }: Check): boolean =>
  type === undefined || type === 'http' || role !== undefined

/** In a text: `TYPE` or `TYPE://[USER@][:PORT][/PATH]`. */
const shape = /^([a-z]+)(?::\/\/(?:([^/@:]*)@)?([^/:?]*)(?::([^/?]*))?([/?].*)?)?$/i

/** What the path of a text is called in an object. */
const pathFields: Readonly<Record<string, 'path' | 'database' | 'role'>> = {
  http: 'path',
  postgres: 'database',
  redis: 'role',
}

/** Reads a check to what an object would have; a text in its place says what is wrong with it. */
export const readCheck = (text: string): Check | string => {
  const [whole, given = '', user, host, portText, path] = shape.exec(text) ?? []
  if (whole === undefined) return `${show(text)} is not ${checkForm}`
  const name = given.toLowerCase()
  const type = types.find(each => each === (name === 'https' ? 'http' : name))
  if (type === undefined) return unknownType(given)
  if (host)
    return `names the host ${show(host)}; each endpoint is asked itself, give ${withoutHost(name, host)}`
  const port = portText === undefined ? undefined : Number(portText)
  if (port !== undefined && !isPort(portText ?? ''))
    return `port ${show(portText)} is not a port: 1 to 65535`
  if (user !== undefined && !fieldsOf[type].includes('user'))
    return `names a user, which ${name} has no use for; leave it out`
  const field = pathFields[type]
  if (path !== undefined && field === undefined)
    return `has the path ${show(path)}, which it has no use for; leave it out`
  const value = field === 'path' ? path : path?.slice(1)
  const isGiven = value !== undefined && (value !== '' || field !== 'database')
  const raw = {
    type,
    ...(name === 'https' && { tls: true }),
    ...(port !== undefined && { port }),
    ...(user !== undefined && { user }),
    ...(field !== undefined && isGiven && { [field]: value }),
  }
  const [fault] = fieldFaults(raw)
  if (fault === undefined) return raw
  return fault.field === 'role' ? `role ${fault.message}` : fault.message
}

const isPort = (text: string): boolean =>
  /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535

/** What was meant by a check that names a host. */
const withoutHost = (type: string, host: string): string => {
  const byPort = `${type}://:PORT`
  if (type === 'redis' && (host === 'primary' || host === 'replica'))
    return `redis:///${host}`
  return type === 'mysql' || type === 'postgres'
    ? `${byPort}, or ${type}://USER@`
    : byPort
}

/** HAProxy's words and others', too far from the right one by letters or nearer to a wrong one. */
const elsewhere: ReadonlyMap<string, string> = new Map([
  ['pgsql', 'postgres'],
  ['psql', 'postgres'],
  ['mariadb', 'mysql'],
  ['httpchk', 'http'],
])

const unknownType = (given: string): string => {
  const word = given.toLowerCase()
  const meant = elsewhere.get(word) ?? suggest(word, types)
  return `${show(given)} is unknown; ${
    meant === undefined ? `give ${checkForm}` : `did you mean ${meant}?`
  }`
}
