import { Resolver } from 'node:dns'
import { nodeAddresses, ownAddresses } from '../capture/local-addresses.ts'
import { nodePortCidrs, nodePortCidrsOfAnyNode } from '../kernel/node-port-cidrs.ts'
import type { Registry } from '../model/registry.ts'
import type { ModeName, KernelOptions } from '../mode/mode.ts'
import type { Problem, Snapshot } from '../model/snapshot.ts'
import { serverAt } from '../source/routes/own-resolver.ts'
import type { Source } from '../source/source.ts'
import { cidrContains, cidrHoldsAny, isCidrWithin, parseCidr } from '../util/cidr.ts'
import {
  type AddressPort,
  familyOf,
  type IpFamily,
  ipFamilies,
  isLoopback,
} from '../util/ip.ts'
import type { ClusterFacts, NodeParts, ProxyOptions } from './options.ts'

export const clusterFacts = (
  { nodeName, clusterCidrs, nodeCidrs, nodeProblem }: NodeParts,
  registry: Registry,
  options: Pick<ProxyOptions, 'nodePortAddresses' | 'serviceCidr' | 'mode'>,
  source: Pick<Source, 'dials'>,
): ClusterFacts => {
  const nodePorts = nodePortNames(options)
  // Which the API will have: kube-proxy does not start without (NewNodeManager).
  const untilKnown = nodePorts.map(word => (word === 'primary' ? 'localhost' : word))
  const resolvers = resolversOfHost()
  const elsewhere = () =>
    new Map([
      ...Array.from(registry.otherNodes(), namedNode),
      ...resolvers().map(({ address }) => [address, 'a resolver of this host'] as const),
      ...(source.dials?.() ?? []).map(
        ({ address }) => [address, 'where this node reaches the API server'] as const,
      ),
    ])
  /** Each with what of a host is in it, and would be cut off with all that is no ClusterIP there, if anything. */
  const serviceRanges = () => {
    const ranges = [...(options.serviceCidr ?? []), ...registry.serviceCIDRs()]
    if (ranges.length === 0) return []
    const own = registry.lastKnownNode()?.addresses ?? []
    const hosts = [
      ...elsewhere(),
      ...own.map(address => [address, 'an address of this Node'] as const),
      ...registry.apiServers().map(address => [address, 'an API server'] as const),
    ]
    return ranges.map(range => {
      const cidr = parseCidr(range)
      const isHost = (one: string) =>
        cidr !== undefined && cidrContains(cidr, one) && !registry.hasClusterIP(one)
      return [range, hosts.find(([one]) => isHost(one))?.join(', ')] as const
    })
  }
  const ofNode = () => registry.lastKnownNode()?.podCIDRs ?? []
  const podCidrs = () => [...clusterCidrs, ...(nodeCidrs ? ofNode() : [])]
  return {
    nodeName,
    podCidrs,
    nodePodCidrs: () => {
      const inUse = ofNode().filter(text => cidrHoldsAny(text, ownAddresses()))
      return podCidrs().flatMap(text => {
        const own = inUse.filter(one => isCidrWithin(one, text))
        return own.length === 0 ? [text] : own
      })
    },
    serviceCidrs: () => serviceRanges().flatMap(([range, host]) => (host ? [] : [range])),
    serviceCidrProblems: () =>
      serviceRanges().flatMap(([range, host]) => {
        const message = `is not taken as a whole, only the ClusterIPs that Services have: it holds ${host}, which would be out of reach`
        return host ? [{ object: 'service CIDR', field: range, message }] : []
      }),
    nodePortCidrs: family => {
      const own = primaryAddresses(registry.lastKnownNode()?.addresses ?? [])
      const waits = own.length === 0 && nodeProblem !== undefined
      return nodePortCidrs(waits ? untilKnown : nodePorts, own)(family)
    },
    nodePortCidrsOfAnyNode: nodePortCidrsOfAnyNode(nodePorts),
    elsewhere,
  }
}

/** Whether this host has an address, other than by a capture, which has none that the source dials. */
export const hostHas = (address: string, source: Pick<Source, 'dials'>): boolean => {
  const dialled = new Set(source.dials?.().map(dial => dial.address))
  const ours = { has: (one: string) => !dialled.has(one) }
  return nodeAddresses(familyOf(address) ?? 'IPv4', ours).includes(address)
}

/** Milliseconds: each sync asks some times, and each time c-ares would read its files. */
const resolversKnownMs = 1000

/** Gives those of a second ago at the latest. */
const resolversOfHost = () => {
  let [known, at] = [[] as readonly AddressPort[], -Infinity]
  return (): readonly AddressPort[] => {
    const now = performance.now()
    if (now - at < resolversKnownMs) return known
    known = new Resolver().getServers().flatMap(serverAt)
    at = now
    return known
  }
}

const namedNode = ([address, name]: readonly [string, string]) =>
  [address, `an address of Node ${name}`] as const

/** As kube-proxy, which opens less in nftables mode; it stays so when another takes its place. */
const nodePortNames = ({
  nodePortAddresses = [],
  mode,
}: Pick<ProxyOptions, 'nodePortAddresses' | 'mode'>): readonly string[] =>
  nodePortAddresses.length === 0 && mode?.mode === 'nftables'
    ? ['primary']
    : nodePortAddresses

/** Addresses of this host for healthCheckNodePorts; undefined: all of the family. */
export const healthCheckAddresses = (
  { nodePortCidrs: cidrsOf }: ClusterFacts,
  family: IpFamily,
  snapshots: readonly Snapshot[],
): readonly string[] | undefined => {
  const cidrs = cidrsOf(family)
  return cidrs && addressesIn(cidrs, family, snapshots)
}

/** Where node ports answer clients on this node: on loopback always. */
export const nodePortAddresses = (
  { nodePortCidrs: cidrsOf }: ClusterFacts,
  snapshots: readonly Snapshot[],
): readonly string[] => [
  ...ipFamilies.flatMap(family => {
    const all = addressesIn(cidrsOf(family), family, snapshots)
    return all.filter(address => !isLoopback(address))
  }),
  '127.0.0.1',
  '::1',
]

/** Whether a mode has node ports on loopback: userspace always does. */
export const onLoopback =
  (mode: ModeName, kernel: KernelOptions | undefined) =>
  (family: IpFamily): boolean =>
    mode === 'userspace' ||
    (mode === 'nftables' && kernel?.nftables.localhostNodePorts === true) ||
    (mode === 'iptables' && kernel?.localhostNodePorts === true && family === 'IPv4')

/**
 * Families in which --nodeport-addresses leaves no address of this host, so that node ports answer
 * nowhere: where some are wanted, or in each when it leaves none in any.
 */
export const nodePortProblems = (
  cidrsOf: ClusterFacts['nodePortCidrs'],
  hasLoopback: ReturnType<typeof onLoopback>,
  snapshots: readonly Snapshot[] = [],
): readonly Problem[] => {
  const limited = ipFamilies.filter(family => cidrsOf(family) !== undefined)
  const barren = limited.filter(family => {
    const all = addressesIn(cidrsOf(family), family, snapshots)
    return all.every(address => isLoopback(address) && !hasLoopback(family))
  })
  return barren
    .filter(family => barren.length === limited.length || hasNodePorts(family, snapshots))
    .map(family => ({
      object: '--nodeport-addresses',
      field: family,
      message: `${cidrsOf(family)?.join(', ')} contains no address of this host on which this mode serves node ports: no node port can be reached. Give primary, or a CIDR of the node's; loopback needs --nftables-localhost-nodeports, or --iptables-localhost-nodeports for 127.0.0.1`,
    }))
}

const hasNodePorts = (family: IpFamily, snapshots: readonly Snapshot[]): boolean =>
  snapshots.some(
    one =>
      one.family === family &&
      (one.healthChecks.size > 0 ||
        [...one.servicePorts.values()].some(({ vips }) =>
          vips.some(({ kind }) => kind === 'NodePort'),
        )),
  )

const addressesIn = (
  texts: readonly string[] | undefined,
  family: IpFamily,
  snapshots: readonly Snapshot[],
): readonly string[] => {
  const cidrs = texts?.flatMap(text => parseCidr(text) ?? [])
  return nodeAddresses(family, vipsOf(snapshots)).filter(
    address => cidrs === undefined || cidrs.some(cidr => cidrContains(cidr, address)),
  )
}

/** The first of each family: a Node lists its primary addresses first. */
const primaryAddresses = (addresses: readonly string[]): readonly string[] =>
  ipFamilies.flatMap(family => addresses.find(one => familyOf(one) === family) ?? [])

/** Addresses that a capture may have put on this host. */
const vipsOf = (snapshots: readonly Snapshot[]): Pick<ReadonlySet<string>, 'has'> => {
  let all: ReadonlySet<string> | undefined
  // Of few addresses it is asked, if of any.
  return { has: address => (all ??= allVips(snapshots)).has(address) }
}

const allVips = (snapshots: readonly Snapshot[]): ReadonlySet<string> => {
  const all = new Set<string>()
  for (const { servicePorts } of snapshots)
    for (const { vips } of servicePorts.values())
      for (const { address } of vips) all.add(address)
  return all
}
