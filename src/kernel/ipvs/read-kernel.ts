import { cidrContains, parseCidr } from '../../util/cidr.ts'
import { type IpFamily, canonicalIp, joinHostPort, familyOf } from '../../util/ip.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { ToolError, type RunTool } from '../run-tool.ts'
import type { IpvsDeps } from './ipvs-deps.ts'
import { longTimeoutMs } from './ipvs-tools.ts'
import type { KnownServer, KnownSet, KnownState } from './wanted-state.ts'
import { addressOf, isUdp, portOf, type ServerId, serverId } from './server-id.ts'
import {
  type SetKind,
  setName,
  spareName,
  vipSetKinds,
  creation,
  setKinds,
  setType,
} from './set-names.ts'
import { captureDevice, listDevices } from '../cleanup/devices.ts'
import { runIpBatch } from '../host-addresses/ip-tool.ts'

/**
 * Has the VIPs, so that packets for them are taken in and ipvs sees them. It stays down
 * and answers no ARP: no neighbour is to find a VIP by it.
 */
export const deviceName = 'kube-ipvs0'

/** All that the kernel has of one family, others' too. */
export interface KernelContents {
  readonly servers: ReadonlyMap<ServerId, KnownServer>
  readonly sets: Map<SetKind, KnownSet>
  readonly addresses: DeviceAddresses
}

/** Where the kernel's number of the device stands; another one is another device. */
const indexPath = `/sys/class/net/${deviceName}/ifindex`

export const deviceIndex = async ({ read }: Pick<IpvsDeps, 'read'>): Promise<string> =>
  ((await read(indexPath)) ?? '').trim()

/** Makes kube-ipvs0 where it is missing. Rejects with ToolError. */
export const readKernel = async (
  deps: IpvsDeps,
  family: IpFamily,
): Promise<KernelContents> => {
  const { run } = deps
  await ensureDevice(run, (await deviceIndex(deps)) !== '')
  const options = { timeoutMs: longTimeoutMs }
  const [servers, saved, addresses] = await Promise.all([
    run('ipvsadm', ['-Sn'], options).then(text => savedServers(text, family)),
    run('ipset', ['save'], options),
    readAddresses(run, family),
  ])
  const sets = await savedSets(saved, family)
  for (const [kind, why] of wrongTypes(sets, family)) {
    // By its name kube-proxy's; it can't go while rules use it.
    const gone = run('ipset', ['destroy', setName(family, kind)])
    await gone.catch(({ message }: Error) => {
      throw new ToolError(`${why}, and does not go: ${message}`, 'failed', '')
    })
    sets.delete(kind)
  }
  // Of a sync that was ended half-way; of whichever type it is, it would be in the way.
  const spare = spareName(family)
  if (`\n${saved}`.includes(`\ncreate ${spare} `)) await run('ipset', ['destroy', spare])
  return { servers, sets, addresses }
}

/**
 * What of it is this mode's to change: virtual servers that are wanted, and those that
 * were surely made for a Service, because their address is on kube-ipvs0 or a set of
 * kube-proxy's names them. The rest, and what excludeCIDRs names, is another program's;
 * kube-proxy takes all others out.
 */
export const knownState = async (
  { servers, sets, addresses }: KernelContents,
  isWanted: (id: ServerId) => boolean,
  excludeCidrs: readonly string[],
): Promise<KnownState> => {
  const excluded = excludeCidrs.flatMap(text => parseCidr(text) ?? [])
  const isOwn = (id: ServerId): boolean => {
    if (isWanted(id)) return true
    const address = addressOf(id)
    return (
      !excluded.some(cidr => cidrContains(cidr, address)) &&
      (addresses.own.has(address) || isNamed(id, sets))
    )
  }
  const own = new Map<ServerId, KnownServer>()
  await forEachYielding(servers, ([id, server]) => {
    if (isOwn(id)) own.set(id, server)
  })
  return { servers: own, sets, addresses: addresses.own }
}

const isNamed = (id: ServerId, sets: ReadonlyMap<SetKind, KnownSet>): boolean => {
  const port = portOf(id)
  const entry = `${addressOf(id)},${isUdp(id) ? 'udp' : 'tcp'}:${port}`
  return (
    vipSetKinds.some(kind => sets.get(kind)?.entries.has(entry)) ||
    sets.get(isUdp(id) ? 'NODE-PORT-UDP' : 'NODE-PORT-TCP')?.entries.has(String(port)) ===
      true
  )
}

/**
 * The virtual servers of one family in what `ipvsadm -Sn` prints. Those that go by a
 * firewall mark are left out.
 */
export const savedServers = async (
  text: string,
  family: IpFamily,
): Promise<Map<ServerId, KnownServer>> => {
  const servers = new Map<ServerId, KnownServer>()
  await forEachYielding(text.split('\n'), line => {
    const [, verb, id = '', rest = ''] =
      /^-([Aa]) ((?:-[tu]|--sctp-service) \S+) (.*)$/.exec(line.trim()) ?? []
    if (verb === undefined || addressOf(id).includes(':') !== (family === 'IPv6')) return
    if (verb === 'A') servers.set(id, { how: optionsOf(rest), destinations: new Map() })
    else addDestination(servers.get(id), rest)
  })
  return servers
}

/** Without the netmask, which is said of servers with persistence, and is the whole one. */
const optionsOf = (rest: string): string => {
  const tokens = rest.split(' ').filter(Boolean)
  const optionOf = (flag: string): string => {
    const at = tokens.indexOf(flag)
    return at < 0 ? '' : ` ${flag} ${tokens[at + 1]}`
  }
  const mask = optionOf('-M')
  const isWhole = ['', ' -M 255.255.255.255', ' -M 128'].includes(mask)
  return `${optionOf('-s')}${optionOf('-b')}${optionOf('-p')}${isWhole ? '' : mask}`.trim()
}

const addDestination = (server: KnownServer | undefined, rest: string): void => {
  const [, destination = '', method] = /^-r (\S+) -([gim])\b/.exec(rest) ?? []
  const weight = Number(/ -w (\d+)/.exec(rest)?.[1])
  if (destination !== '')
    server?.destinations.set(destination, method === 'm' ? weight : -1)
}

/** The sets of one family in what `ipset save` prints. */
export const savedSets = async (
  text: string,
  family: IpFamily,
): Promise<Map<SetKind, KnownSet>> => {
  const kinds = new Map(setKinds.map(kind => [setName(family, kind), kind]))
  const sets = new Map<SetKind, KnownSet>()
  await forEachYielding(text.split('\n'), line => {
    const [verb, name = '', ...words] = line.trim().split(' ')
    const kind = kinds.get(name)
    if (kind === undefined) return
    if (verb === 'create')
      sets.set(kind, { creation: creationOf(words), entries: new Set() })
    else if (verb === 'add') sets.get(kind)?.entries.add(words[0] ?? '')
  })
  return sets
}

/** As `creation` words it: the size grows by itself, and newer tools say more. */
const creationOf = (words: readonly string[]): string => {
  const value = (name: string): string => `${name} ${words[words.indexOf(name) + 1]}`
  const [type = ''] = words
  return type === 'bitmap:port'
    ? `${type} ${value('range')}`
    : `${type} ${value('family')} hashsize 1024 ${value('maxelem')}`
}

/** How many entries each set has, in what `ipset list -t` prints. */
export const setSizes = (text: string): ReadonlyMap<string, number> =>
  new Map(
    [...text.matchAll(/^Name: (\S+)$[^]*?^Number of entries: (\d+)$/gm)].map(
      ([, name = '', count]) => [name, Number(count)],
    ),
  )

/** Of the sets that should be there, what is wrong with the first; '' for nothing. */
export const setDamage = (
  sizes: ReadonlyMap<string, number>,
  sets: ReadonlyMap<SetKind, KnownSet>,
  family: IpFamily,
): string => {
  for (const [kind, { entries }] of sets) {
    const name = setName(family, kind)
    const size = sizes.get(name)
    if (size === undefined) return `ipset ${name} is gone`
    if (size !== entries.size)
      return `ipset ${name} has ${size} entries instead of ${entries.size}`
  }
  return ''
}

/** Sets that can't be turned into what they should be, each with what is wrong with it. */
const wrongTypes = (
  sets: ReadonlyMap<SetKind, KnownSet>,
  family: IpFamily,
): ReadonlyMap<SetKind, string> => {
  const wrong = new Map<SetKind, string>()
  for (const [kind, { creation: words = '' }] of sets) {
    const [is, should] = [sortOf(words), sortOf(creation(family, setType(kind)))]
    if (is !== should)
      wrong.set(
        kind,
        `ipset ${setName(family, kind)} is of type ${is} instead of ${should}`,
      )
  }
  return wrong
}

/** `hash:ip family inet`: what `ipset swap` needs to be the same. */
const sortOf = (words: string): string => /^\S+(?: family \S+)?/.exec(words)?.[0] ?? ''

/** A destination in /proc/net/ip_vs. */
interface Load {
  readonly weight: number
  /** Active and inactive ones. */
  readonly connections: number
}

export type Loads = ReadonlyMap<ServerId, ReadonlyMap<string, Load>>

/** Virtual servers of TCP, UDP and SCTP in /proc/net/ip_vs, with what their destinations carry. */
export const readLoads = async (text: string): Promise<Loads> => {
  const loads = new Map<ServerId, Map<string, Load>>()
  let now: Map<string, Load> | undefined
  await forEachYielding(text.split('\n'), line => {
    const tokens = line.trim().split(/ +/)
    const [first, second = ''] = tokens
    if (first === 'TCP' || first === 'UDP' || first === 'SCTP') {
      const [address, port] = addressAndPort(second)
      now = new Map()
      loads.set(serverId(first, address, port), now)
    } else if (first === '->') {
      const [address, port] = addressAndPort(second)
      const [weight, active, inactive] = tokens.slice(3).map(Number)
      if (weight === undefined || active === undefined || inactive === undefined) return
      now?.set(joinHostPort(address, port), { weight, connections: active + inactive })
    } else now = undefined
  })
  return loads
}

/** `0A600001:01BB`, or `[2001:0db8:...]:01BB`. */
const addressAndPort = (text: string): readonly [address: string, port: number] => {
  const end = text.lastIndexOf(':')
  const port = Number.parseInt(text.slice(end + 1), 16)
  if (text.startsWith('[')) return [canonicalIp(text.slice(1, end - 1)) ?? '', port]
  const word = Number.parseInt(text.slice(0, end), 16)
  const bytes = [24, 16, 8, 0].map(shift => (word >>> shift) & 255)
  return [bytes.join('.'), port]
}

interface DeviceAddresses {
  /** On kube-ipvs0. */
  readonly own: Set<string>
  /** On all others, loopback too; without what a capture of Usher's put there for a while. */
  readonly elsewhere: ReadonlySet<string>
}

/** Makes the device where there is none. Rejects with ToolError. */
const ensureDevice = async (run: RunTool, isThere: boolean): Promise<void> => {
  if (!isThere)
    try {
      await run('ip', ['link', 'add', deviceName, 'type', 'dummy'])
    } catch (error) {
      // The other family's proxier was there first.
      if (!(error instanceof ToolError) || !/File exists/.test(error.stderr)) throw error
    }
  await run('ip', ['link', 'set', 'dev', deviceName, 'arp', 'off'])
}

/** Addresses of one family. Rejects with ToolError. */
export const readAddresses = async (
  run: RunTool,
  family: IpFamily,
): Promise<DeviceAddresses> => {
  const [own, elsewhere] = [new Set<string>(), new Set<string>()]
  for (const { name, addresses } of await listDevices(run))
    await forEachYielding(addresses, ({ address, prefix, hasMetric }) => {
      if (familyOf(address) !== family) return
      // Not an address of its own that a device has which is up.
      if (name === deviceName && prefix >= 32 && !address.startsWith('fe80:'))
        own.add(address)
      else if (
        ![deviceName, captureDevice].includes(name) &&
        !(name === 'lo' && hasMetric)
      )
        elsewhere.add(address)
    })
  return { own, elsewhere }
}

/**
 * Not to be taken as the source of what is sent elsewhere, masqueraded or not: IPv6 leaves
 * addresses alone that are not preferred (RFC 6724), IPv4 those of a smaller scope.
 */
const addressWords = {
  IPv4: [32, 'scope host'],
  IPv6: [128, 'nodad preferred_lft 0'],
} as const

/** A line for `ip -batch`. */
export const addressAddition = (
  family: IpFamily,
  address: string,
  device: string,
): string => {
  const [length, flags] = addressWords[family]
  return `address add ${address}/${length} dev ${device} ${flags}`
}

/** The difference, which `known` has from then on. */
export const addressChanges = async (
  family: IpFamily,
  touched: Iterable<string>,
  wanted: (address: string) => boolean,
  known: Set<string>,
): Promise<readonly string[]> => {
  const [added, removed]: [string[], string[]] = [[], []]
  const [length] = addressWords[family]
  await forEachYielding(touched, address => {
    if (wanted(address) === known.has(address)) return
    if (known.delete(address))
      removed.push(`address delete ${address}/${length} dev ${deviceName}`)
    else {
      known.add(address)
      added.push(addressAddition(family, address, deviceName))
    }
  })
  return [...added, ...removed]
}

/** What `ip` says when another program has done it already. */
const done = /File exists|already assigned|Cannot assign requested address/

/** Rejects with ToolError when a line fails for which it is not done already. */
export const changeAddresses = async (
  run: RunTool,
  lines: readonly string[],
): Promise<void> => {
  if (lines.length === 0) return
  for (const [index, why] of await runIpBatch(run, lines))
    if (!done.test(why))
      throw new ToolError(`ip ${lines[index] ?? ''}: ${why}`, 'failed', why)
}
