import { show } from '../util/printable.ts'
import { suggest } from '../util/suggest.ts'
import { asksForRole, type Check, type RedisRole, usualRules } from './check.ts'

export const checkForm =
  'tcp, http://:PORT/PATH, postgres, redis or mysql, like http://:8008/primary'

const types = ['tcp', 'http', 'postgres', 'redis', 'mysql'] as const

/** In a text: `TYPE` or `TYPE://[USER@][:PORT][/PATH]`. */
const shape = /^([a-z]+)(?::\/\/(?:([^/@:]*)@)?([^/:?]*)(?::([^/?]*))?([/?].*)?)?$/i

/** Whom databases are asked for where nothing is said: PostgreSQL always has that role. */
export const usualUser = { postgres: 'postgres', mysql: 'usher' } as const

/** Reads a check; a text in its place says what is wrong with it. */
export const readCheck = (text: string): Check | string => {
  const [whole, given = '', user, host, portText, path] = shape.exec(text) ?? []
  if (whole === undefined) return `${show(text)} is not ${checkForm}`
  const type = types.find(each => each === given.toLowerCase())
  if (type === undefined) return unknownType(given)
  if (host)
    return `names the host ${show(host)}; each endpoint is asked itself, give ${withoutHost(type, host)}`
  const port = portText === undefined ? undefined : Number(portText)
  if (port !== undefined && !isPort(portText ?? ''))
    return `port ${show(portText)} is not a port: 1 to 65535`
  const parts: CheckParts = {
    ...(port !== undefined && { port }),
    ...(user !== undefined && { user }),
    ...(path !== undefined && { path }),
  }
  return readers[type](parts)
}

const isPort = (text: string): boolean =>
  /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535

/** What was meant by a check that names a host. */
const withoutHost = (type: Check['type'], host: string): string => {
  const byPort = `${type}://:PORT`
  if (type === 'redis' && (host === 'primary' || host === 'replica'))
    return `redis:///${host}`
  const hasUser = type === 'mysql' || type === 'postgres'
  return hasUser ? `${byPort}, or ${type}://USER@` : byPort
}

/** HAProxy's words and others', too far from the right one by letters or nearer to a wrong one. */
const elsewhere: ReadonlyMap<string, string> = new Map([
  ['pgsql', 'postgres'],
  ['psql', 'postgres'],
  ['mariadb', 'mysql'],
  ['httpchk', 'http'],
])

const unknownType = (given: string): string => {
  if (given.toLowerCase() === 'https')
    return `"https" is not there: checks speak no TLS; give http, or tcp`
  const word = given.toLowerCase()
  const meant = elsewhere.get(word) ?? suggest(word, types)
  return `${show(given)} is unknown; ${
    meant === undefined ? `give ${checkForm}` : `did you mean ${meant}?`
  }`
}

interface CheckParts {
  readonly port?: number
  readonly user?: string
  /** With what begins it, `/` or `?`. */
  readonly path?: string
}

type Read = (parts: CheckParts) => Check | string

const strayUser = (type: string): string =>
  `names a user, which ${type} has no use for; leave it out`

const strayPath = (path: string): string =>
  `has the path ${show(path)}, which it has no use for; leave it out`

const portOf = ({ port }: CheckParts): { port?: number } =>
  port === undefined ? {} : { port }

const readers: Readonly<Record<(typeof types)[number], Read>> = {
  tcp: parts => {
    if (parts.user !== undefined) return strayUser('tcp')
    if (parts.path !== undefined) return strayPath(parts.path)
    return { type: 'tcp', ...portOf(parts) }
  },
  http: parts => {
    if (parts.user !== undefined) return strayUser('http')
    const { path = '/' } = parts
    const fault = pathFault(path)
    return fault || { type: 'http', ...portOf(parts), path, statuses: [200] }
  },
  postgres: parts => {
    const user = parts.user ?? usualUser.postgres
    const database = parts.path?.slice(1) || user
    const fault = nameFault(user) || nameFault(database)
    return fault || { type: 'postgres', ...portOf(parts), user, database }
  },
  redis: parts => {
    if (parts.user !== undefined) return strayUser('redis')
    const role = parts.path?.slice(1)
    if (role === undefined) return { type: 'redis', ...portOf(parts) }
    if (!isRole(role)) return `role ${show(role)} is not primary or replica`
    return { type: 'redis', ...portOf(parts), role }
  },
  mysql: parts => {
    if (parts.path !== undefined) return strayPath(parts.path)
    const user = parts.user ?? usualUser.mysql
    return nameFault(user) || { type: 'mysql', ...portOf(parts), user }
  },
}

const isRole = (text: string): text is RedisRole =>
  text === 'primary' || text === 'replica'

/** Why a path can't be asked for; '' when it can. */
export const pathFault = (path: string): string =>
  /^\/[\x21-\x7e]*$/.test(path) && !path.includes('#') && path.length <= 2000
    ? ''
    : `path ${show(path)} is not one like /primary or /replica?lag=10MB`

export const nameForm = 'a name: 1 to 63 characters without spaces'

/** Of a user or a database; '' for none. */
export const nameFault = (name: string): string =>
  /^[^\0-\x20\x7f]{1,63}$/.test(name) ? '' : `${show(name)} is not ${nameForm}`

/** A role that the server has not been shown to have is not to be taken for granted. */
export const usualInit = (check: Check): 'up' | 'down' =>
  asksForRole(check) ? 'down' : usualRules.init
