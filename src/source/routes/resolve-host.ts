import { lookup, Resolver } from 'node:dns/promises'
import { setTimeout } from 'node:timers/promises'
import { splitHostPort, type AddressPort } from '../../util/ip.ts'
import { resolveSrvBy } from './own-resolver.ts'
import type { Resolve, Resolved, ResolveSrv } from './resolver.ts'

/** What `resolverFrom` needs of the system. */
export interface HostLookup {
  addresses(host: string): Promise<readonly string[]>
  /** Seconds the host's A and AAAA records hold, of those that were found. */
  ttls(host: string, signal: AbortSignal): Promise<readonly number[]>
}

/** How long the addresses are kept back for a TTL that is still on its way. */
const graceMs = 200

/**
 * Addresses come from the system's resolver, which has /etc/hosts and search domains
 * and gives no TTL; DNS is asked for the TTL at the same time, and not waited for.
 */
export const resolverFrom =
  (system: HostLookup): ((host: string) => Promise<Resolved>) =>
  async host => {
    const done = new AbortController()
    const ttls = system.ttls(host, done.signal).catch((): number[] => [])
    try {
      const addresses = await system.addresses(host)
      const late = setTimeout(graceMs, [], { signal: done.signal }).catch(() => [])
      const known = await Promise.race([ttls, late])
      return {
        addresses,
        ttlMs: known.length > 0 ? Math.min(...known) * 1000 : undefined,
      }
    } finally {
      done.abort()
    }
  }

const system: HostLookup = {
  addresses: async host => {
    const found = await lookup(host, { all: true })
    return found.map(({ address }) => address)
  },
  ttls: async (host, signal) => {
    const resolver = new Resolver({ timeout: 1000, tries: 1 })
    signal.addEventListener('abort', () => resolver.cancel(), { once: true })
    const answers = await Promise.allSettled([
      resolver.resolve4(host, { ttl: true }),
      resolver.resolve6(host, { ttl: true }),
    ])
    return answers.flatMap(answer =>
      answer.status === 'fulfilled' ? answer.value.map(({ ttl }) => ttl) : [],
    )
  },
}

/** The system's own way of finding a host, with DNS's TTL if there is one. */
export const resolveHost: Resolve = resolverFrom(system)

/** The system's own servers, which may be others the next time. */
export const systemServers = (): readonly AddressPort[] =>
  new Resolver().getServers().map(text => {
    const split = splitHostPort(text)
    return split === undefined
      ? { address: text, port: 53 }
      : { address: split.host, port: split.port }
  })

/** By the system's servers: its own way of finding hosts knows no SRV records. */
export const resolveSrv: ResolveSrv = resolveSrvBy(systemServers)
