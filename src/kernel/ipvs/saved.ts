import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { KnownServer, KnownSet } from './wanted-state.ts'
import { creation, type SetKind, setKinds, setName, setType } from './set-names.ts'
import { addressOf, type ServerId } from './server-id.ts'

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
  const words = rest.split(' ').filter(Boolean)
  const optionOf = (flag: string): string => {
    const at = words.indexOf(flag)
    return at < 0 ? '' : ` ${flag} ${words[at + 1]}`
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
export const wrongTypes = (
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
