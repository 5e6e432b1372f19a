import type {
  Snapshot,
  ServicePort,
  Target,
  Vip,
  Endpoint,
} from '../../model/snapshot.ts'
import type { KernelSettings } from '../proxier.ts'
import { kubeletFirewall, iptablesChains } from '../xtables/kube-chains.ts'
import type { Chain, Jump, TableName } from '../xtables/wanted.ts'
import { localnetRule, wantedJumps } from './jumps.ts'
import {
  comment,
  type Service,
  serviceOf,
  protocolMatch,
  type ServiceVipKind,
  vipMatch,
  safe,
} from './service.ts'
import { joinHostPort, type IpFamily } from '../../util/ip.ts'
import { endpointChainName } from './names.ts'
import { cidrContains, parseCidr, type Cidr } from '../../util/cidr.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import type { Backend } from '../xtables/backend.ts'
import { takes } from '../xtables/try-lines.ts'
import { counterNames, type PacketCounters } from './packet-counters.ts'
import { ifLocal as localMatches, ifNotLocal } from '../xtables/local-pods.ts'

/** All rules of one family. */
export interface FullRules {
  readonly mangle: readonly Chain[]
  readonly filter: readonly Chain[]
  readonly nat: readonly Chain[]
  /** In the order in which they are put in front of a chain's rules. */
  readonly jumps: Readonly<Record<TableName, readonly Jump[]>>
}

/**
 * The layout of kube-proxy 1.36. A pure function, and in one piece: a snapshot of 10 000
 * ServicePorts takes it some hundred milliseconds.
 */
export const fullRules = (
  snapshot: Snapshot,
  settings: KernelSettings,
  features: Features,
): FullRules => {
  const { family } = snapshot
  const servicePorts = [...snapshot.servicePorts.values()]
  const endpoints = servicePorts.reduce((sum, each) => sum + each.endpoints.length, 0)
  const context = makeContext(family, settings, features, endpoints > largeCluster)
  const services = servicePorts.map(each => serviceRules(each, context))
  return assemble(snapshot, settings, features, services)
}

/** Puts the rules of all ServicePorts and the constant ones together. */
export const assemble = (
  snapshot: Snapshot,
  settings: KernelSettings,
  features: Features,
  services: readonly ServiceRules[],
): FullRules => {
  const { family } = snapshot
  const localnet = hasLocalhostNodePorts(family, settings)
  const shared = (table: TableName): readonly Chain[] => [
    ...constantChains(table, settings, features),
    ...portalKindNames
      .filter(kind => portalKinds[kind].table === table)
      .map(kind => portalChain(kind, services, settings, family)),
  ]
  const kubelets: readonly Chain[] = localnet
    ? [{ name: kubeletFirewall, lines: [localnetRule] }]
    : []
  return {
    mangle: [{ name: iptablesChains.canary, lines: [] }],
    filter: [...shared('filter'), healthCheckChain(snapshot), ...kubelets],
    nat: [...shared('nat'), ...services.flatMap(({ chains }) => chains)],
    jumps: wantedJumps(localnet),
  }
}

/** All rules of one ServicePort. */
export interface ServiceRules extends PortalRules {
  /** Its own chains, in nat; each before those it leads to. */
  readonly chains: readonly Chain[]
}

/** As kube-proxy 1.36 has them. A pure function. */
export const serviceRules = (
  servicePort: ServicePort,
  context: Context,
): ServiceRules => {
  const service = serviceOf(servicePort)
  return {
    ...portalRules(service, context),
    chains: [
      ...firewallChain(service),
      ...externalChain(service, context),
      ...endpointChains(service, context),
    ],
  }
}

/**
 * KUBE-EXT-: what comes to external addresses. Policy Local keeps the client's address,
 * but pods of this node and the node itself are spared the policy, as if their packets
 * had gone to the load balancer and come back; the node's own need masquerading then,
 * because the load balancer's address may be local and so be their source.
 */
const externalChain = (service: Service, { ifLocal }: Context): readonly Chain[] => {
  const { title, names, servicePort, external, hasEndpoints } = service
  if (external === undefined || !hasEndpoints) return []
  const about = (before: string): string =>
    comment(`${before} for ${title} external destinations`)
  const fromHost = '-m addrtype --src-type LOCAL'
  const isLocal = servicePort.externalTrafficPolicy === 'Local'
  const toPolicy = `-j ${isLocal ? names.local : names.cluster}`
  const spared = isLocal
    ? [
        ...ifLocal.map(match => `${about('pod traffic')} ${match} -j ${names.cluster}`),
        `${about('masquerade LOCAL traffic')} ${fromHost} -j ${iptablesChains.markMasq}`,
        `${about('route LOCAL traffic')} ${fromHost} -j ${names.cluster}`,
      ]
    : [`${about('masquerade traffic')} -j ${iptablesChains.markMasq}`]
  const rest = external.verdict === 'forward' ? [toPolicy] : []
  return [{ name: names.external, lines: [...spared, ...rest] }]
}

/**
 * KUBE-FW-: who may use the load-balancer IPs. Where this node may, the snapshot's ranges
 * have those addresses too: a packet of the node's own to one carries it as its source.
 */
const firewallChain = (service: Service): readonly Chain[] => {
  if (!service.hasFirewall) return []
  const { title, names, servicePort } = service
  const reason = comment(`${title} loadbalancer IP`)
  const last = `other traffic to ${title} will be dropped by ${iptablesChains.proxyFirewall}`
  const ranges = servicePort.sourceRanges ?? []
  const lines = ranges.map(range => `${reason} -s ${range} -j ${names.external}`)
  return [{ name: names.firewall, lines: [...lines, comment(last)] }]
}

/** The lines of one ServicePort in the chains that all of them share. */
export interface PortalRules {
  /** filter KUBE-SERVICES. */
  readonly refused: readonly string[]
  /** filter KUBE-EXTERNAL-SERVICES. */
  readonly refusedOutside: readonly string[]
  /** filter KUBE-PROXY-FIREWALL. */
  readonly firewall: readonly string[]
  /** nat KUBE-SERVICES. */
  readonly portals: readonly string[]
  /** nat KUBE-NODEPORTS. */
  readonly nodePorts: readonly string[]
}

const portalRules = (service: Service, context: Context): PortalRules => ({
  refused: refusedVips(service, service.vips.ClusterIP, service.servicePort.internal),
  refusedOutside: refusedOutside(service),
  firewall: firewall(service),
  portals: portals(service),
  nodePorts: nodePorts(service, context),
})

const refusedVips = (
  service: Service,
  vips: readonly Vip[],
  target: Target,
): readonly string[] => {
  const refusal = refusalOf(service, target)
  if (refusal === undefined) return []
  const [why, verdict] = refusal
  return vips.map(vip => `${why} ${vipMatch(service, vip)} -j ${verdict}`)
}

const refusalOf = (
  { title }: Service,
  { verdict }: Target,
): readonly [why: string, verdict: string] | undefined => {
  if (verdict === 'forward') return undefined
  return verdict === 'reject'
    ? [comment(`${title} has no endpoints`), 'REJECT']
    : [comment(`${title} has no local endpoints`), 'DROP']
}

/** Packets that nat has led to an endpoint don't come by here: their address is another. */
const refusedOutside = (service: Service): readonly string[] => {
  const { external, vips } = service
  const refusal = external && refusalOf(service, external)
  if (external === undefined || refusal === undefined) return []
  const [why, verdict] = refusal
  const local = `${why} -m addrtype --dst-type LOCAL ${protocolMatch(service)}`
  return [
    ...refusedVips(service, [...vips.ExternalIP, ...vips.LoadBalancerIP], external),
    ...vips.NodePort.map(({ port }) => `${local} --dport ${port} -j ${verdict}`),
  ]
}

/** What the firewall chain has not led on still has the address it was sent to. */
const firewall = (service: Service): readonly string[] => {
  if (!service.hasFirewall) return []
  const { title, names, vips } = service
  const reason = comment(`${title} traffic not accepted by ${names.firewall}`)
  return vips.LoadBalancerIP.map(vip => `${reason} ${vipMatch(service, vip)} -j DROP`)
}

const portals = (service: Service): readonly string[] => {
  const { title, names, vips, servicePort, hasEndpoints, hasFirewall } = service
  if (!hasEndpoints) return []
  const lines = (
    kind: ServiceVipKind,
    words: string,
    chain: string,
  ): readonly string[] => {
    const reason = comment(`${title} ${words}`)
    return vips[kind].map(vip => `${reason} ${vipMatch(service, vip)} -j ${chain}`)
  }
  const inside =
    servicePort.internalTrafficPolicy === 'Local' ? names.local : names.cluster
  return [
    ...(servicePort.internal.verdict === 'forward'
      ? lines('ClusterIP', 'cluster IP', inside)
      : []),
    ...lines('ExternalIP', 'external IP', names.external),
    ...lines(
      'LoadBalancerIP',
      'loadbalancer IP',
      hasFirewall ? names.firewall : names.external,
    ),
  ]
}

/** loadBalancerSourceRanges are not about node ports. */
const nodePorts = (service: Service, { countsLocalhost }: Context): readonly string[] => {
  const { title, names, vips, hasEndpoints } = service
  if (!hasEndpoints) return []
  const reason = `-m comment --comment ${title} ${protocolMatch(service)}`
  const counter = `-m nfacct --nfacct-name ${counterNames.localhostNodePorts}`
  return vips.NodePort.flatMap(({ port }) => {
    const line = `${reason} --dport ${port} -j ${names.external}`
    if (!countsLocalhost) return [line]
    const counted = `${reason} -d 127.0.0.0/8 --dport ${port} ${counter} -j ${names.external}`
    return [counted, line]
  })
}

/**
 * KUBE-SVC-, KUBE-SVL- and KUBE-SEP-: which endpoint a packet is led to.
 *
 * `recent` has a list of addresses for each endpoint, of 100 by default (`ip_list_tot` of
 * xt_recent): the oldest falls out, and that client is balanced anew.
 */
const endpointChains = (service: Service, context: Context): readonly Chain[] => {
  const { names, servicePort, clusterEndpoints, localEndpoints } = service
  const exits = new Map<Endpoint, Exit>()
  for (const endpoint of servicePort.reachable)
    exits.set(endpoint, exitOf(service, endpoint, context))
  const inside = servicePort.internalTrafficPolicy
  const policy = (
    name: string,
    endpoints: readonly Endpoint[],
    isInside: boolean,
  ): readonly Chain[] => {
    if (endpoints.length === 0) return []
    const head = isInside ? clusterIpMasquerade(service, context) : []
    const to = endpoints.flatMap(endpoint => exits.get(endpoint) ?? [])
    return [{ name, lines: [...head, ...affinity(service, to), ...balance(to)] }]
  }
  return [
    ...policy(names.cluster, clusterEndpoints, inside === 'Cluster'),
    ...policy(names.local, localEndpoints, inside === 'Local'),
    ...Array.from(exits.values(), exit => exitChain(service, exit, context)),
  ]
}

/** Where a policy chain leads to. */
interface Exit {
  readonly chain: string
  readonly address: string
  readonly addressPort: string
  /** With a space at its end; '' in a large cluster. */
  readonly comment: string
}

const exitOf = (service: Service, endpoint: Endpoint, { isLarge }: Context): Exit => {
  const { title, protocol, servicePort } = service
  const addressPort = joinHostPort(endpoint.address, endpoint.port)
  return {
    chain: endpointChainName(servicePort.name, protocol, addressPort),
    address: endpoint.address,
    addressPort,
    comment: isLarge ? '' : `${comment(`${title} -> ${addressPort}`)} `,
  }
}

/** A client that is not a pod may have come by a route that the answer would not take. */
const clusterIpMasquerade = (
  service: Service,
  { masquerade }: Context,
): readonly string[] => {
  if (masquerade === undefined) return []
  const clients = masquerade === '' ? '' : ` ${masquerade}`
  const reason = comment(`${service.title} cluster IP`)
  return service.vips.ClusterIP.map(
    vip => `${reason} ${vipMatch(service, vip)}${clients} -j ${iptablesChains.markMasq}`,
  )
}

/** A client that was led to an endpoint within the timeout is led there again. */
const affinity = ({ servicePort }: Service, to: readonly Exit[]): readonly string[] => {
  if (servicePort.affinityMs === 0) return []
  // Whole seconds, of which there is at least one.
  const seconds = Math.max(1, Math.ceil(servicePort.affinityMs / 1000))
  const known = `--rcheck --seconds ${seconds} --reap`
  return to.map(
    exit => `${exit.comment}-m recent --name ${exit.chain} ${known} -j ${exit.chain}`,
  )
}

/** Of those left at each rule, its own has an equal chance. */
const balance = (to: readonly Exit[]): readonly string[] =>
  to.map((exit, index) => {
    const left = to.length - index
    const chance =
      left === 1
        ? ''
        : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `
    return `${exit.comment}${chance}-j ${exit.chain}`
  })

const exitChain = (service: Service, exit: Exit, { isLarge }: Context): Chain => {
  const reason = isLarge ? '' : `-m comment --comment ${service.title} `
  const remember =
    service.servicePort.affinityMs === 0 ? '' : `-m recent --name ${exit.chain} --set `
  return {
    name: exit.chain,
    lines: [
      // What comes back to its sender has to be answered through this node.
      `${reason}-s ${exit.address} -j ${iptablesChains.markMasq}`,
      `${reason}${remember}${protocolMatch(service)} -j DNAT --to-destination ${exit.addressPort}`,
    ],
  }
}

/** The chains that ServicePorts have lines in, as `PortalRules` calls them. */
export const portalKindNames = [
  'refused',
  'refusedOutside',
  'firewall',
  'portals',
  'nodePorts',
] as const satisfies readonly (keyof PortalRules)[]
export type PortalKind = (typeof portalKindNames)[number]

export const portalKinds: Readonly<
  Record<PortalKind, { readonly table: TableName; readonly chain: string }>
> = {
  refused: { table: 'filter', chain: iptablesChains.services },
  refusedOutside: { table: 'filter', chain: iptablesChains.externalServices },
  firewall: { table: 'filter', chain: iptablesChains.proxyFirewall },
  portals: { table: 'nat', chain: iptablesChains.services },
  nodePorts: { table: 'nat', chain: iptablesChains.nodePorts },
}

/** With the lines of all ServicePorts, one after the other. */
export const portalChain = (
  kind: PortalKind,
  services: Iterable<PortalRules>,
  settings: KernelSettings,
  family: IpFamily,
): Chain => {
  const lines: string[] = []
  for (const service of services) lines.push(...service[kind])
  if (kind === 'portals') lines.push(...nodePortJumps(family, settings))
  return { name: portalKinds[kind].chain, lines }
}

/** The chains that have the same rules whatever Services there are. */
const constantChains = (
  table: TableName,
  settings: KernelSettings,
  features: Features,
): readonly Chain[] => {
  // Empty; that it is gone shows that a table was emptied.
  const canary: Chain = { name: iptablesChains.canary, lines: [] }
  return table === 'filter'
    ? [canary, forwardChain(settings, features)]
    : [canary, ...masqueradeChains(settings, features)]
}

/**
 * filter KUBE-NODEPORTS: whether or not endpoints are here, the load balancer has to be
 * able to ask.
 */
export const healthCheckChain = ({ healthChecks, servicePorts }: Snapshot): Chain => {
  const lines: string[] = []
  // Most snapshots have none.
  for (const each of healthChecks.size === 0 ? [] : servicePorts.values()) {
    const check = healthChecks.get(`${each.namespace}/${each.serviceName}`)
    if (check === undefined) continue
    const reason = comment(`${safe(each.name)} health check node port`)
    lines.push(`${reason} -m tcp -p tcp --dport ${check.port} -j ACCEPT`)
  }
  return { name: iptablesChains.nodePorts, lines }
}

/** As kube-proxy writes it: `0x00004000`. */
const markOf = ({ masqueradeBit }: KernelSettings): string =>
  `0x${(2 ** masqueradeBit).toString(16).padStart(8, '0')}`

/** filter KUBE-FORWARD. */
const forwardChain = (settings: KernelSettings, features: Features): Chain => {
  const mark = markOf(settings)
  const counter = features.nfacct
    ? `-m nfacct --nfacct-name ${counterNames.invalidDropped} `
    : ''
  // What conntrack can't place keeps a client's addresses on its way, and its far end
  // would reset the connection (kubernetes/kubernetes #74839, #117924).
  const invalid = `-m conntrack --ctstate INVALID ${counter}-j DROP`
  const forward = comment('kubernetes forwarding rules')
  const known = comment('kubernetes forwarding conntrack rule')
  return {
    name: iptablesChains.forward,
    lines: [
      ...(features.conntrackLiberal ? [] : [invalid]),
      `${forward} -m mark --mark ${mark}/${mark} -j ACCEPT`,
      `${known} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
    ],
  }
}

/** nat KUBE-POSTROUTING and KUBE-MARK-MASQ. */
const masqueradeChains = (
  settings: KernelSettings,
  { randomFully }: Features,
): readonly Chain[] => {
  const mark = markOf(settings)
  const reason = comment('kubernetes service traffic requiring SNAT')
  return [
    {
      name: iptablesChains.postrouting,
      lines: [
        `-m mark ! --mark ${mark}/${mark} -j RETURN`,
        // A packet may come through the stack again, and is not masqueraded twice.
        `-j MARK --xor-mark ${mark}`,
        `${reason} -j MASQUERADE${randomFully ? ' --random-fully' : ''}`,
      ],
    },
    { name: iptablesChains.markMasq, lines: [`-j MARK --or-mark ${mark}`] },
  ]
}

/** The end of nat KUBE-SERVICES: what leads to node ports. */
export const nodePortJumps = (
  family: IpFamily,
  settings: KernelSettings,
): readonly string[] => {
  const reason = comment(
    'kubernetes service nodeports; NOTE: this must be the last rule in this chain',
  )
  const line = (match: string): string =>
    `${reason} ${match} -j ${iptablesChains.nodePorts}`
  const hasLocalhost = hasLocalhostNodePorts(family, settings)
  const { nodePortCidrs, nodeAddresses } = settings
  if (nodePortCidrs === undefined) {
    const except = hasLocalhost ? '' : ` ! -d ${loopback[family]}`
    return [line(`-m addrtype --dst-type LOCAL${except}`)]
  }
  const cidrs = nodePortCidrs.flatMap(cidr => parseCidr(cidr) ?? [])
  const localhost = hasLocalhost ? ['127.0.0.1'] : []
  return [...localhost, ...nodeAddresses]
    .filter(address => cidrs.some(cidr => cidrContains(cidr, address)))
    .map(address => line(`-d ${address}`))
}

const loopback: Readonly<Record<IpFamily, string>> = {
  IPv4: '127.0.0.0/8',
  IPv6: '::1/128',
}

/** What the tool and the kernel of a node have, or are set to, beyond what is needed. */
export interface Features {
  /** `MASQUERADE --random-fully` (iptables 1.6.2, Linux 3.13). */
  readonly randomFully: boolean
  /** nf_conntrack_tcp_be_liberal is on: packets out of the window are not INVALID. */
  readonly conntrackLiberal: boolean
  /** `-m sctp` (the module xt_sctp): without it a rule for it would cost all others. */
  readonly sctp: boolean
  /** `-m nfacct`, with kube-proxy's counters in the kernel. */
  readonly nfacct: boolean
}

/**
 * Tries the tool and asks the kernel. What can be counted by nfacct is set up for it.
 * Rejects with ToolError when nothing can be tried now.
 */
export const findFeatures = async (
  run: RunTool,
  backend: Backend,
  family: IpFamily,
  counters: PacketCounters | undefined,
): Promise<Features> => {
  const [randomFully, conntrackLiberal, sctp, nfacct] = await Promise.all([
    works(backend, '-j MASQUERADE --random-fully'),
    isLiberal(run),
    works(backend, '-p sctp -m sctp --dport 1 -j RETURN'),
    countsByNfacct(counters, backend, family),
  ])
  return { randomFully, conntrackLiberal, sctp, nfacct }
}

const works = (backend: Backend, line: string): Promise<boolean> =>
  takes(backend, { nat: [line] })

/** Where it can't be read there is no conntrack yet, and it begins with 0. */
const isLiberal = async (run: RunTool): Promise<boolean> => {
  const file = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal'
  const text = await run('cat', [file]).catch(orNothing('0'))
  return text.trim() !== '0'
}

const countsByNfacct = async (
  counters: PacketCounters | undefined,
  backend: Backend,
  family: IpFamily,
): Promise<boolean> => {
  const { invalidDropped, localhostNodePorts } = counterNames
  // Of the two counters one is in nat, for IPv4 only.
  const names =
    family === 'IPv4' ? [invalidDropped, localhostNodePorts] : [invalidDropped]
  return (
    counters !== undefined &&
    names.every(name => counters.ensure(name)) &&
    works(backend, `-m nfacct --nfacct-name ${invalidDropped} -j RETURN`)
  )
}

const orNothing =
  <T>(instead: T) =>
  (error: unknown): T => {
    if (error instanceof ToolError) return instead
    throw error
  }

/** What the rules of a ServicePort go by besides itself. */
export interface Context {
  readonly family: IpFamily
  /** Which clients of ClusterIPs are masqueraded: a match, '' for all, undefined for none. */
  readonly masquerade: string | undefined
  /** Matches for packets from pods of this node. */
  readonly ifLocal: readonly string[]
  /** Whether accepted packets to node ports on 127.0.0.1 are counted. */
  readonly countsLocalhost: boolean
  /** More than 1000 endpoints: their rules have no comments, which saves 40 % of the text. */
  readonly isLarge: boolean
}

export const makeContext = (
  family: IpFamily,
  settings: KernelSettings,
  features: Features,
  isLarge: boolean,
): Context => {
  const { masqueradeAll, localDetector } = settings
  return {
    family,
    masquerade: masqueradeAll ? '' : ifNotLocal(localDetector),
    ifLocal: localMatches(localDetector),
    countsLocalhost: features.nfacct && hasLocalhostNodePorts(family, settings),
    isLarge,
  }
}

/** kube-proxy's limit, of endpoints over all ServicePorts. */
export const largeCluster = 1000

/**
 * Node ports on 127.0.0.1. They need net.ipv4.conf.all.route_localnet = 1, which is
 * set with the other sysctls, and with it the rule against CVE-2020-8558 in KUBE-FIREWALL.
 */
const hasLocalhostNodePorts = (
  family: IpFamily,
  { localhostNodePorts, nodePortCidrs }: KernelSettings,
): boolean =>
  family === 'IPv4' &&
  localhostNodePorts &&
  (nodePortCidrs === undefined || nodePortCidrs.some(holdsLoopback))

const loopbackBlock = parseCidr('127.0.0.0/8')

/** Whether some of 127.0.0.0/8 is in it. */
const holdsLoopback = (text: string): boolean => {
  const cidr = parseCidr(text)
  return cidr !== undefined && loopbackBlock !== undefined && overlap(cidr, loopbackBlock)
}

const overlap = (a: Cidr, b: Cidr): boolean =>
  a.words.length === b.words.length &&
  a.words.every((word, i) => {
    const mask = (a.masks[i] ?? 0) & (b.masks[i] ?? 0)
    return (word & mask) === ((b.words[i] ?? 0) & mask)
  })
