import { lookup, Resolver } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { readIfThere } from '../../util/read-text.ts'
import { hasCode, messageOf, UsherError } from '../../util/usher-error.ts'
import { orAborted } from '../../util/clock.ts'
import {
  HostsFile,
  hostsMs,
  systemHosts,
  parseResolvConf,
  resolveByDns,
  resolveSrvBy,
  serverAt,
  type ResolvConf,
} from './own-resolver.ts'
import type { Resolve, Resolved, ResolveSrv } from './place.ts'

/** What the system says of how hosts are found. */
export interface SystemFiles {
  readonly resolvConf: string
  readonly nsswitch: string
  readonly hosts: string
  /** All that is neither the hosts file nor DNS: getaddrinfo(3). */
  readonly lookup: (host: string) => Promise<readonly string[]>
}

const systemFiles: SystemFiles = {
  resolvConf: '/etc/resolv.conf',
  nsswitch: '/etc/nsswitch.conf',
  hosts: systemHosts,
  lookup: async host => (await lookup(host, { all: true })).map(({ address }) => address),
}

/**
 * Finds hosts as the system does, by its hosts file, its DNS servers and search domains, without
 * getaddrinfo(3): that can't be ended, and libuv gives it two threads, so that two names whose
 * servers are silent keep all others waiting. It is asked only where nsswitch.conf(5) names more
 * than files and DNS, once those don't know the host.
 */
export const systemResolver = (system = systemFiles): Resolve => {
  const hosts = new HostsFile(system.hosts)
  const bySystem = oncePerName(system.lookup)
  const names = new Map<string, string>()
  return async (host, signal) => {
    const services = await servicesOf(system)
    const known = services.includes('files') ? await hosts.addressesOf(host) : []
    if (known.length > 0) return { addresses: known, ttlMs: hostsMs, faults: [] }
    const more = services.some(service => service !== 'files' && service !== 'dns')
    try {
      if (services.includes('dns'))
        return await resolveByDns(await confOf(system), host, signal, names)
      if (!more) throw new UsherError('NOT_FOUND', 'it is not in the hosts file')
    } catch (error) {
      // What DNS had it does not lose by failing: another way may know another host by that name.
      const isUnknown = names.has(host) && !hasCode(error, 'NOT_FOUND')
      if (signal.aborted || !more || isUnknown) throw error
      // Where DNS has failed its word says more than getaddrinfo's.
      return bySystem(host, signal).catch(() => Promise.reject(error))
    }
    return bySystem(host, signal)
  }
}

/** Of the line `hosts`, or glibc's default; other systems have their own ways. */
const servicesOf = async ({ nsswitch }: SystemFiles): Promise<readonly string[]> => {
  if (process.platform !== 'linux') return ['system']
  const text = (await readIfThere(nsswitch)) ?? ''
  const [, line = 'files dns'] =
    /^[ \t]*hosts:(.*)$/m.exec(text.replaceAll(/#.*/g, '')) ?? []
  return line
    .replaceAll(/\[[^\]]*\]/g, ' ')
    .split(/\s+/)
    .filter(Boolean)
}

/** Without such a file the servers are those that c-ares finds: of the registry, or of this host. */
const confOf = async ({ resolvConf }: SystemFiles): Promise<ResolvConf> => {
  const conf = parseResolvConf((await readIfThere(resolvConf)) ?? '')
  if (conf.servers.length > 0) return conf
  return { ...conf, servers: new Resolver().getServers().flatMap(serverAt) }
}

/**
 * One lookup of a name at a time, whoever gives up waiting for it: what it comes to then is for who
 * asks next.
 */
const oncePerName = (find: SystemFiles['lookup']): Resolve => {
  const running = new Map<string, Promise<Resolved>>()
  return async (host, signal) => {
    const found =
      running.get(host) ?? find(host).then(addresses => ({ addresses, ttlMs: undefined }))
    running.set(host, found)
    try {
      return await orAborted(found, signal)
    } finally {
      if (!signal.aborted) running.delete(host)
    }
  }
}

/** The system's own way of finding a host. */
export const resolveHost: Resolve = systemResolver()

/** By the system's servers: its own way of finding hosts knows no SRV records. */
export const resolveSrv: ResolveSrv = resolveSrvBy(
  async () => (await confOf(systemFiles)).servers,
)

const lookupMs = 10_000

/** `resolveHost` for sockets of Node's, which else ask getaddrinfo(3). */
export const lookupHost: LookupFunction = (host, { all = false }, callback) => {
  const answer = async (): Promise<void> => {
    let found: readonly string[]
    try {
      found = (await resolveHost(host, AbortSignal.timeout(lookupMs))).addresses
    } catch (error) {
      const code = hasCode(error, 'NOT_FOUND') ? 'ENOTFOUND' : 'EAI_AGAIN'
      const message = `cannot resolve ${host}: ${messageOf(error)}`
      return callback(Object.assign(new Error(message, { cause: error }), { code }), [])
    }
    const list = found.map(address => ({ address, family: isIP(address) }))
    const [first = { address: '', family: 4 }] = list
    if (all) callback(null, list)
    else callback(null, first.address, first.family)
  }
  void answer()
}
