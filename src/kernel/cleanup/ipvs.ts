import { type RunTool, ToolError, isUnsupported } from '../run-tool.ts'
import { addressesOn, listDevices } from './devices.ts'
import { isKubeProxySet } from '../ipvs/set-names.ts'
import { readLoads } from '../ipvs/read-kernel.ts'
import {
  type ServerId,
  addressOf,
  portOf,
  protocolOf,
  serverText,
} from '../ipvs/server-id.ts'
import { type Kind, type Leftover, type Stay, isMissing, nothing } from './clean-up.ts'

export interface IpvsDeps {
  readonly run: RunTool
  /** The text of a file; undefined when there is none. */
  readonly read: (path: string) => Promise<string | undefined>
}

/**
 * Virtual servers of kube-proxy's ipvs mode. Read from /proc, because kube-proxy needs no
 * ipvsadm and a node of its may have none; only to remove them it takes one.
 */
export const ipvsKind = ({ run, read }: IpvsDeps): Kind => ({
  name: 'ipvs virtual servers',
  find: async () => {
    const all = await readLoads((await read('/proc/net/ip_vs')) ?? '')
    if (all.size === 0) return nothing
    const onDevice = addressesOn(await listDevices(run), 'kube-ipvs0')
    const entries = ipsetEntries(await savedSets(run))
    const own = [...all.keys()].filter(id => isKubeProxyServer(id, onDevice, entries))
    if (own.length === 0) return nothing
    const remove = async () => {
      await run('ipvsadm', ['-R'], { input: own.map(id => `-D ${id}\n`).join('') })
      return []
    }
    return {
      leftovers: [
        { what: own.map(id => `ipvs virtual server ${serverText(id)}`), remove },
      ],
      stays: [],
    }
  },
})

/** Empty when there can be no sets, or they can't be read. */
const savedSets = async (run: RunTool): Promise<string> => {
  try {
    return await run('ipset', ['save'])
  } catch (error) {
    if (isMissing(error) || isUnsupported(error)) return ''
    throw error
  }
}

/** `10.96.0.1,tcp:443` and, from the sets of node ports, `*,tcp:30080`. */
const entryOf = (address: string, protocol: string, port: string): string =>
  `${address},${protocol.toLowerCase()}:${port}`

/**
 * What kube-proxy's ipsets (as `ipset save` prints them) say of virtual servers. They name
 * also what is on no kube-ipvs0: node ports, and external IPs that some other device has.
 */
const ipsetEntries = (text: string): ReadonlySet<string> => {
  const entries = new Set<string>()
  for (const [, set = '', entry = ''] of text.matchAll(/^add (\S+) (\S+)/gm)) {
    if (!isKubeProxySet(set)) continue
    const nodePort = /^KUBE-(?:6-)?NODE-PORT-(?:LOCAL-)?(TCP|UDP|SCTP)$/.exec(set)
    if (nodePort?.[1] !== undefined) {
      entries.add(entryOf('*', nodePort[1], entry))
      continue
    }
    const [, address = '', protocol = '', port = ''] =
      /^([\d.:a-f]+),(tcp|udp|sctp):(\d+)$/.exec(entry) ?? []
    if (address !== '') entries.add(entryOf(address, protocol, port))
  }
  return entries
}

/**
 * Whether kube-proxy made it: its address is on kube-ipvs0, or one of kube-proxy's ipsets
 * names it. kube-proxy --cleanup flushes all of ipvs instead, with what others have there.
 */
const isKubeProxyServer = (
  id: ServerId,
  onDevice: ReadonlySet<string>,
  entries: ReadonlySet<string>,
): boolean => {
  const [address, protocol, port] = [addressOf(id), protocolOf(id), String(portOf(id))]
  return (
    onDevice.has(address) ||
    entries.has(entryOf(address, protocol, port)) ||
    entries.has(entryOf('*', protocol, port))
  )
}

/**
 * nf_tables lets go of what a deleted rule used a moment after the rule has gone, so a set
 * may be "in use by a kernel component" for so long.
 */
const tries = 10
const pauseMs = 100

export interface IpsetDeps {
  readonly run: RunTool
  readonly sleep: (ms: number) => Promise<void>
}

export const ipsetsKind = (deps: IpsetDeps): Kind => ({
  name: 'ipsets',
  find: async () => {
    const text = await deps.run('ipset', ['list', '-n'])
    const sets = text.split('\n').filter(isKubeProxySet)
    return { leftovers: sets.length === 0 ? [] : [leftover(deps, sets)], stays: [] }
  },
})

const lineOf = (set: string): string => `ipset ${set}`

const leftover = ({ run, sleep }: IpsetDeps, sets: readonly string[]): Leftover => ({
  what: sets.map(lineOf),
  remove: async () => {
    let left = await destroy(run, sets)
    for (let more = tries; more > 1 && left.size > 0; more -= 1) {
      await sleep(pauseMs)
      left = await destroy(run, [...left.keys()])
    }
    return Array.from(left, ([set, reason]): Stay => ({ what: lineOf(set), reason }))
  },
})

/** The sets that stayed, each with the reason. */
const destroy = async (
  run: RunTool,
  sets: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  const left = new Map<string, string>()
  for (const set of sets) {
    try {
      await run('ipset', ['destroy', set])
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      left.set(set, error.message)
    }
  }
  return left
}
