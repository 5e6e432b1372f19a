import type { Endpoint, ServicePort, Snapshot } from '../../model/snapshot.ts'
import { canonicalIp, joinHostPort, splitHostPort } from '../../util/ip.ts'
import { suggest } from '../../util/suggest.ts'
import { Refusal } from './carry-out.ts'
import { meantBy, shortName } from './named-service-ports.ts'

/** An endpoint of the ServicePorts of one name. */
export interface NamedEndpoint {
  readonly name: string
  /** `ip:port`. */
  readonly key: string
  /** As the source has it. */
  readonly endpoint: Endpoint
}

/**
 * The endpoints that users mean by `10.0.0.5:5432`: of the routes they name, or of all that have
 * it. Throws a Refusal for the first name that is wrong.
 */
export const namedEndpoints = (
  snapshots: readonly Snapshot[],
  given: readonly string[],
  routes: readonly string[] | undefined,
): readonly NamedEndpoint[] => {
  const among = meantBy(snapshots, routes)
  const byKey = new Map<string, Map<string, NamedEndpoint>>()
  for (const text of given) byKey.set(canonicalKey(text), new Map())
  for (const { name, endpoints } of among)
    for (const endpoint of endpoints) {
      const key = joinHostPort(endpoint.address, endpoint.port)
      byKey.get(key)?.set(name, { name, key, endpoint })
    }
  for (const text of given)
    if (byKey.get(canonicalKey(text))?.size === 0)
      throw new Refusal(404, 'UNKNOWN_ENDPOINT', unknownEndpoint(text, among, routes))
  return [...byKey.values()].flatMap(found => Array.from(found.values()))
}

/** As endpoints are written: of an IPv6 address there are many ways to write it. */
const canonicalKey = (text: string): string => {
  const { host, port } = splitHostPort(text) ?? { host: '', port: 0 }
  const address = canonicalIp(host)
  return address === undefined ? text : joinHostPort(address, port)
}

const unknownEndpoint = (
  text: string,
  among: readonly ServicePort[],
  routes: readonly string[] = [],
): string => {
  const known = new Set<string>()
  for (const { endpoints } of among)
    for (const { address, port } of endpoints) known.add(joinHostPort(address, port))
  const key = canonicalKey(text)
  const meant =
    [...known].find(one => one.startsWith(`${key}:`) || one.startsWith(`[${key}]:`)) ??
    suggest(key, [...known])
  const hint =
    meant !== undefined
      ? `did you mean ${meant}?`
      : known.size === 0
        ? 'there is none'
        : 'usher get endpoints lists them'
  const where = routes.length === 0 ? '' : ` of ${routes.map(shortName).join(', ')}`
  return `there is no endpoint ${JSON.stringify(text)}${where}; ${hint}`
}
