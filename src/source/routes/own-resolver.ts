import { hostname } from 'node:os'
import { familyOf, splitHostPort, type AddressPort, canonicalIp } from '../../util/ip.ts'
import { errorOf, hasCode, UsherError, messageOf } from '../../util/usher-error.ts'
import { askServers, type Records } from './dns/ask-servers.ts'
import type { Resolve, Resolved, ResolveSrv } from './place.ts'
import { isHostName } from './route-address.ts'
import { stat } from 'node:fs/promises'
import { readBounded } from '../../util/read-text.ts'

/** Finds hosts by the hosts file and then by these servers; names are taken as they are. */
export const resolveBy = (
  servers: readonly AddressPort[],
  hostsPath = systemHosts,
): Resolve => {
  const hosts = new HostsFile(hostsPath)
  return async (host, signal) => {
    const known = await hosts.addressesOf(host)
    if (known.length > 0) return { addresses: known, ttlMs: hostsMs, faults: [] }
    return resolveByDns({ servers, search: [], ndots: 0 }, host, signal)
  }
}

/**
 * By DNS, with search domains as resolv.conf(5) has them. A domain whose servers refuse is passed
 * over, as glibc does, unless it has the host by `names`, where it is kept: that of the next may be
 * another host. Servers that say nothing would not do so for another name. Rejects with NOT_FOUND when
 * the host is known not to be there.
 */
export const resolveByDns = async (
  conf: ResolvConf,
  host: string,
  signal: AbortSignal,
  names = new Map<string, string>(),
): Promise<Resolved> => {
  let fault: Error | undefined
  for (const name of candidatesOf(host, conf)) {
    try {
      const found = merged(
        await Promise.allSettled([
          askServers(conf.servers, { name, type: 'A' }, signal),
          askServers(conf.servers, { name, type: 'AAAA' }, signal),
        ]),
      )
      names.set(host, name)
      return found
    } catch (error) {
      if (signal.aborted || hasCode(error, 'SILENCE')) throw error
      if (names.get(host) === name && !hasCode(error, 'NOT_FOUND')) throw error
      if (fault === undefined || hasCode(fault, 'NOT_FOUND')) fault = errorOf(error)
    }
  }
  throw fault ?? new UsherError('NOT_FOUND', 'it is not a host name')
}

const candidatesOf = (host: string, { search, ndots }: ResolvConf): readonly string[] => {
  if (host.endsWith('.')) return [host]
  const longer = search.map(domain => `${host}.${domain}`).filter(isHostName)
  const isWhole = host.split('.').length > ndots
  return isWhole ? [host, ...longer] : [...longer, host]
}

type Outcome = PromiseSettledResult<Records<'A'> | Records<'AAAA'>>

/** Of A and AAAA. One is enough, as for the system's resolver; what failed of the other is told. */
const merged = (outcomes: readonly Outcome[]): Resolved => {
  const answers = outcomes.flatMap(each =>
    each.status === 'fulfilled' ? [each.value] : [],
  )
  const failures = outcomes.flatMap(each =>
    each.status === 'rejected' ? [errorOf(each.reason)] : [],
  )
  const rejected = outcomes.findIndex(({ status }) => status === 'rejected')
  const found = answers.filter(({ records }) => records.length > 0)
  if (found.length === 0)
    throw failures[0] ?? new UsherError('NOT_FOUND', noneOf(answers))
  return {
    addresses: found.flatMap(({ records }) => records.map(({ address }) => address)),
    ttlMs: Math.min(...found.map(({ ttl }) => ttl)) * 1000,
    faults: [
      ...failures.map(({ message }) => message),
      ...found.flatMap(({ cut }) => (cut === '' ? [] : [cut])),
    ],
    ...(found.some(({ cut }) => cut !== '') && { isPart: true }),
    ...(rejected >= 0 && { unknown: rejected === 0 ? 'IPv4' : 'IPv6' }),
  }
}

const noneOf = (answers: readonly { readonly none: string }[]): string =>
  [...new Set(answers.map(({ none }) => none))].join('; ')

/** Finds services by SRV records; `servers` is asked each time, for the system's may change. */
export const resolveSrvBy =
  (servers: () => Promise<readonly AddressPort[]>): ResolveSrv =>
  async (name, signal) => {
    const { records, ttl, none, cut } = await askServers(
      await servers(),
      { name, type: 'SRV' },
      signal,
    )
    if (none !== '') throw new UsherError('NOT_FOUND', none)
    return {
      records,
      ttlMs: ttl * 1000,
      ...(cut !== '' && { faults: [cut], isPart: true }),
    }
  }

/** What resolv.conf(5) says of how names are asked for. */
export interface ResolvConf {
  readonly servers: readonly AddressPort[]
  readonly search: readonly string[]
  /** A name with so many dots is asked for as it is before any domain is added to it. */
  readonly ndots: number
}

/** As glibc reads it: the last of `search` and `domain` counts, and else the domain of the host. */
export const parseResolvConf = (text: string, host = hostname()): ResolvConf => {
  const lines = text.split('\n').map(line => line.replace(/^[#;].*/, '').trim())
  const valuesOf = (...keys: readonly string[]): readonly (readonly string[])[] =>
    lines
      .map(line => line.split(/\s+/))
      .flatMap(([key = '', ...words]) => (keys.includes(key) ? [words] : []))
  const domain = /\.(.+)$/.exec(host)?.[1]
  const search = valuesOf('search', 'domain').at(-1) ?? (domain ? [domain] : [])
  const options = valuesOf('options').flat()
  const ndots = options.findLast(option => /^ndots:\d+$/.test(option))?.slice(6)
  return {
    servers: valuesOf('nameserver').flatMap(([server = '']) => serverAt(server)),
    search: search.map(name => name.replace(/\.$/, '')).filter(Boolean),
    ndots: Math.min(15, Number(ndots ?? 1)),
  }
}

/** `10.0.0.2`, or with a port as c-ares has it; none for what is no address. */
export const serverAt = (text: string): readonly AddressPort[] => {
  const { host: address, port } = splitHostPort(text) ?? { host: text, port: 53 }
  return familyOf(address) === undefined ? [] : [{ address, port }]
}

/** Lists of names to block have some MiB. */
const mostBytes = 32 * 1024 * 1024

/** How often a name that is in the hosts file is looked for there again. */
export const hostsMs = 5000

type Hosts = ReadonlyMap<string, readonly string[]>

/** Where the system has it. */
export const systemHosts =
  process.platform === 'win32'
    ? String.raw`${process.env['SystemRoot']}\System32\drivers\etc\hosts`
    : '/etc/hosts'

/** The hosts file, or one like it; read again when it has changed. */
export class HostsFile {
  readonly #path: string
  #state = ''
  #hosts: Hosts = new Map()

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Canonical; empty when the file does not know the name, or is not there. Rejects when
   * it can't be read: what it would have said can't be known then.
   */
  async addressesOf(host: string): Promise<readonly string[]> {
    try {
      const { mtimeMs, size, ino } = await stat(this.#path)
      const state = `${mtimeMs} ${size} ${ino}`
      if (state !== this.#state)
        this.#hosts = parseHosts(await readBounded(this.#path, mostBytes))
      this.#state = state
    } catch (error) {
      this.#state = ''
      this.#hosts = new Map()
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        throw new Error(`cannot read ${this.#path}: ${messageOf(error)}`, {
          cause: error,
        })
    }
    return this.#hosts.get(keyOf(host)) ?? []
  }
}

/** hosts(5): an address, then its names; a name may be on several lines. */
export const parseHosts = (text: string): Hosts => {
  const hosts = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [given = '', ...names] = line
      .replace(/#.*/, '')
      .split(/\s+/)
      .filter(word => word !== '')
    const address = canonicalIp(given)
    if (address === undefined) continue
    for (const name of names) {
      const addresses = hosts.get(keyOf(name))
      if (addresses === undefined) hosts.set(keyOf(name), [address])
      else if (!addresses.includes(address)) addresses.push(address)
    }
  }
  return hosts
}

const keyOf = (name: string): string => name.toLowerCase().replace(/\.$/, '')
