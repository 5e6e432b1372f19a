import type { AddressPort } from '../../util/ip.ts'
import { errorOf } from '../../util/usher-error.ts'
import { askServers, type Records } from './dns/ask-servers.ts'
import { HostsFile, systemHosts } from './hosts-file.ts'
import type { Resolve, ResolveSrv } from './resolver.ts'

/** How often a name that is in the hosts file is looked for there again. */
const hostsMs = 5000

/** Finds hosts by the hosts file and then by these servers; names are taken as they are. */
export const resolveBy = (
  servers: readonly AddressPort[],
  hostsPath = systemHosts,
): Resolve => {
  const hosts = new HostsFile(hostsPath)
  return async (host, signal) => {
    const known = await hosts.addressesOf(host)
    if (known.length > 0) return { addresses: known, ttlMs: hostsMs, faults: [] }
    return merged(
      await Promise.allSettled([
        askServers(servers, { name: host, type: 'A' }, signal),
        askServers(servers, { name: host, type: 'AAAA' }, signal),
      ]),
    )
  }
}

type Outcome = PromiseSettledResult<Records<'A'> | Records<'AAAA'>>

/** Of A and AAAA. One is enough, as for the system's resolver; what failed of the other is told. */
const merged = (outcomes: readonly Outcome[]): Awaited<ReturnType<Resolve>> => {
  const answers = outcomes.flatMap(each =>
    each.status === 'fulfilled' ? [each.value] : [],
  )
  const failures = outcomes.flatMap(each =>
    each.status === 'rejected' ? [errorOf(each.reason)] : [],
  )
  const rejected = outcomes.findIndex(({ status }) => status === 'rejected')
  const found = answers.filter(({ records }) => records.length > 0)
  if (found.length === 0) throw failures[0] ?? new Error(noneOf(answers))
  return {
    addresses: found.flatMap(({ records }) => records.map(({ address }) => address)),
    ttlMs: Math.min(...found.map(({ ttl }) => ttl)) * 1000,
    faults: failures.map(({ message }) => message),
    ...(rejected >= 0 && { unknown: rejected === 0 ? 'IPv4' : 'IPv6' }),
  }
}

const noneOf = (answers: readonly { readonly none: string }[]): string =>
  [...new Set(answers.map(({ none }) => none))].join('; ')

/** Finds services by SRV records; `servers` is asked each time, for the system's may change. */
export const resolveSrvBy =
  (servers: () => readonly AddressPort[]): ResolveSrv =>
  async (name, signal) => {
    const { records, ttl, none } = await askServers(
      servers(),
      { name, type: 'SRV' },
      signal,
    )
    if (none !== '') throw new Error(none)
    return { records, ttlMs: ttl * 1000 }
  }
