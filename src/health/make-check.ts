import { readFile } from 'node:fs/promises'
import { type ConnectionOptions, createSecureContext, type SecureContext } from 'node:tls'
import { type AddressPort, familyOf, joinHostPort } from '../util/ip.ts'
import { ownHeader } from '../util/proxy-header.ts'
import { isUnix } from '../util/unix-address.ts'
import { errorOf, messageOf, errorCode } from '../util/usher-error.ts'
import {
  type CheckedEndpoint,
  type CheckLimits,
  type CheckOutcome,
  unchecked,
} from './check.ts'
import type { Check } from './check-option.ts'
import { httpScript } from './checks/http.ts'
import { mysqlScript } from './checks/mysql.ts'
import { postgresScript } from './checks/postgres.ts'
import { redisScript } from './checks/redis.ts'
import { sendExpectScripts } from './checks/send-expect.ts'
import { converse, type Script } from './conversation.ts'

/**
 * Checks an endpoint once. It never rejects, and everything that it opened is closed when it
 * settles, soon after the time allowed at most.
 */
export type RunCheck = (
  endpoint: CheckedEndpoint,
  limits: CheckLimits,
) => Promise<CheckOutcome>

/** What carries a check out, for all endpoints that have it. */
export const makeCheck = (check: Check): RunCheck => {
  switch (check.type) {
    case 'tcp':
      return converseWith(check, () => ({
        isOver: true,
        mostBytes: 1,
        receive: () => undefined,
      }))
    case 'http': {
      const { host: given, headers } = check
      const optionsOf = check.tls === true ? tlsOptions(check) : undefined
      const script: ScriptOf = async ({ host, address }, port) => {
        const name = given ?? hostOf(host || address, port)
        return httpScript(check, name, await optionsOf?.(withoutPort(name)))
      }
      return converseWith(check, script, headers !== undefined)
    }
    case 'postgres':
      return converseWith(check, () => postgresScript(check))
    case 'redis': {
      const { password } = check
      const script: ScriptOf = async () =>
        redisScript(check, password && (await secretOf(password)))
      return converseWith(check, script, password !== undefined)
    }
    case 'mysql':
      return converseWith(check, () => mysqlScript(check))
    case undefined:
      break
  }
  return converseWith(check, sendExpectScripts(check))
}

/** As in a URL. */
const hostOf = (host: string, port: number): string =>
  isUnix(host) ? 'localhost' : joinHostPort(host, port)

const whereTo = ({ port }: Check, endpoint: CheckedEndpoint): AddressPort => ({
  address: endpoint.address,
  port: port ?? endpoint.port,
})

/** For an endpoint that expects it, the header of a connection that is nobody's. */
const greetingOf = (
  { port, proxyProtocol }: CheckedEndpoint,
  at: AddressPort,
): Buffer | undefined =>
  proxyProtocol !== undefined && at.port === port ? ownHeader(proxyProtocol) : undefined

type ScriptOf = (endpoint: CheckedEndpoint, port: number) => Script | Promise<Script>

/** `hasSecret`: an answer may repeat it. */
const converseWith =
  (check: Check, scriptOf: ScriptOf, hasSecret = false): RunCheck =>
  async (endpoint, limits) => {
    const at = whereTo(check, endpoint)
    let script: Script
    try {
      script = await scriptOf(endpoint, at.port)
    } catch (error) {
      return unchecked(messageOf(error))
    }
    const greeting = greetingOf(endpoint, at)
    const outcome = await converse(at, limits, { ...script, greeting })
    if (outcome.ok || !hasSecret) return outcome
    return {
      ...outcome,
      reason: outcome.reason.replace(/"(-[A-Z]{2,20}\b)?.*"/s, '"$1..."'),
    }
  }

/** As a certificate has it. */
const withoutPort = (name: string): string =>
  name.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')

/** Throws with its name, and never with what it has. */
const read = async (file: string): Promise<string> => {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new Error(`${file} can't be read: ${errorCode(errorOf(error))}`, {
      cause: error,
    })
  }
}

/** Of a file (`file:/PATH`) the first line, of a variable (`env:NAME`) the value; else what is given. */
const secretOf = async (given: string): Promise<string> => {
  if (given.startsWith('file:/')) {
    const [line = ''] = (await read(given.slice('file:'.length))).split(/\r?\n/, 1)
    return line
  }
  if (!given.startsWith('env:')) return given
  const value = process.env[given.slice('env:'.length)]
  if (value === undefined) throw new Error(`${given} is not set`)
  return value
}

/** Files are read for each check, as certificates are renewed; and parsed when they are others. */
const tlsOptions = ({ caFile, certFile, keyFile, verify }: Check) => {
  let parsed: { readonly key: string; readonly context: SecureContext } | undefined
  return async (name: string): Promise<ConnectionOptions> => {
    const files = [caFile, certFile, keyFile]
    const [ca, cert, key] = await Promise.all(files.map(async file => file && read(file)))
    const now = JSON.stringify([ca, cert, key])
    if (parsed?.key !== now)
      parsed = { key: now, context: createSecureContext({ ca, cert, key }) }
    return {
      secureContext: parsed.context,
      rejectUnauthorized: verify !== 'none',
      host: name,
      ...(familyOf(name) === undefined && { servername: name }),
    }
  }
}
