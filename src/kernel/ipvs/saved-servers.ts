import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { addressOf, type ServerId } from './server-id.ts'
import type { KnownServer } from './known-state.ts'

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
  const told = (flag: string): string => {
    const at = words.indexOf(flag)
    return at < 0 ? '' : ` ${flag} ${words[at + 1]}`
  }
  const mask = told('-M')
  const isWhole = ['', ' -M 255.255.255.255', ' -M 128'].includes(mask)
  return `${told('-s')}${told('-b')}${told('-p')}${isWhole ? '' : mask}`.trim()
}

const addDestination = (server: KnownServer | undefined, rest: string): void => {
  const [, destination = '', method] = /^-r (\S+) -([gim])\b/.exec(rest) ?? []
  const weight = Number(/ -w (\d+)/.exec(rest)?.[1])
  if (destination !== '')
    server?.destinations.set(destination, method === 'm' ? weight : -1)
}
