import { type AddressPort, joinHostPort } from '../util/ip.ts'
import { ownHeader } from '../util/proxy-header.ts'
import { isUnix } from '../util/unix-address.ts'
import type { Check, CheckedEndpoint, CheckLimits, CheckOutcome } from './check.ts'
import { httpScript } from './checks/http.ts'
import { mysqlScript } from './checks/mysql.ts'
import { postgresScript } from './checks/postgres.ts'
import { redisScript } from './checks/redis.ts'
import { sendExpectScripts } from './checks/send-expect.ts'
import { checkTcp } from './checks/tcp.ts'
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
      return (endpoint, limits) => {
        const at = whereTo(check, endpoint)
        return checkTcp(at, limits, greetingOf(endpoint, at))
      }
    case 'http':
      return talk(check, ({ host, address }, port) =>
        httpScript(check, hostOf(host || address, port)),
      )
    case 'postgres':
      return talk(check, () => postgresScript(check))
    case 'redis':
      return talk(check, () => redisScript(check))
    case 'mysql':
      return talk(check, () => mysqlScript(check))
    case 'expect':
      break
  }
  return talk(check, sendExpectScripts(check))
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

const talk =
  (check: Check, script: (endpoint: CheckedEndpoint, port: number) => Script): RunCheck =>
  (endpoint, limits) => {
    const at = whereTo(check, endpoint)
    const said = script(endpoint, at.port)
    const greeting = greetingOf(endpoint, at)
    if (greeting === undefined) return converse(at, limits, said)
    const opening = Buffer.concat([greeting, said.opening ?? Buffer.alloc(0)])
    return converse(at, limits, { ...said, opening })
  }
