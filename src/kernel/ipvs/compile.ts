import { flowKeepers } from '../../model/service.ts'
import {
  type Endpoint,
  isInternal,
  type ServicePort,
  type Target,
  type Vip,
} from '../../model/snapshot.ts'
import { joinHostPort } from '../../util/ip.ts'
import { type ServerId, serverId } from './server-id.ts'
import type { SetKind } from './set-names.ts'

/** A virtual server as it should be. */
export interface ServerClaim {
  readonly id: ServerId
  /** Its options, in the words of ipvsadm(8): `-s rr -p 10800`. */
  readonly how: string
  /** `10.0.0.1:80`. */
  readonly destinations: ReadonlySet<string>
  /** Of UDP, others that still serve: those that are there keep their flows. */
  readonly staying: ReadonlySet<string>
  /** Gives way to another claim: a VIP may be an address of the node's. */
  readonly isNodePort: boolean
}

/** All that one ServicePort needs in the kernel. */
export interface Compiled {
  readonly servers: readonly ServerClaim[]
  readonly entries: readonly SetEntry[]
  /** To be on kube-ipvs0. */
  readonly addresses: readonly string[]
}

export type SetEntry = readonly [kind: SetKind, entry: string]

/** What is the same for all ServicePorts. */
export interface CompileSettings {
  readonly scheduler: string
  /** Of the node: those that answer node ports. */
  readonly nodePortAddresses: readonly string[]
  /** Those that other devices have, and that need not be on kube-ipvs0. */
  readonly elsewhere: ReadonlySet<string>
}

export const compile = (
  servicePort: ServicePort,
  settings: CompileSettings,
): Compiled => {
  const addresses = servicePort.vips
    .filter(
      ({ kind, address }) => kind !== 'NodePort' && !settings.elsewhere.has(address),
    )
    .map(({ address }) => address)
  const targets = vipTargets(servicePort, settings)
  const { protocol, endpoints } = servicePort
  const staying = destinationsOf(protocol === 'UDP' ? flowKeepers(endpoints) : [])
  const servers = targets.map(({ vip, target, address }) => ({
    id: serverId(protocol, address, vip.port),
    how: optionsOf(settings.scheduler, servicePort.affinityMs),
    destinations: destinationsOf(target.endpoints),
    staying,
    isNodePort: vip.kind === 'NodePort',
  }))
  const entries = [
    ...targets.flatMap(({ vip, address }) => vipEntries(servicePort, vip, address)),
    ...servicePort.vips.flatMap(vip => nodePortEntries(servicePort, vip, settings)),
    ...hairpinEntries(servicePort, targets),
    ...addresses.map(address => ['IPVS-IPS', address] as const),
  ]
  return { servers, entries, addresses }
}

interface VipTarget {
  readonly vip: Vip
  readonly target: Target
  readonly address: string
}

const vipTargets = (
  { vips, internal, external, externalFromNode }: ServicePort,
  { nodePortAddresses }: CompileSettings,
): readonly VipTarget[] => {
  // Those from outside are kept out by a rule; a virtual server has one list for the rest.
  const outer = external.verdict === 'drop' ? externalFromNode : external
  return vips.flatMap(vip => {
    const target = isInternal(vip) ? internal : outer
    const addresses = vip.kind === 'NodePort' ? nodePortAddresses : [vip.address]
    return addresses.map(address => ({ vip, target, address }))
  })
}

const destinationsOf = (endpoints: readonly Endpoint[]): ReadonlySet<string> =>
  new Set(endpoints.map(({ address, port }) => joinHostPort(address, port)))

/**
 * `mh` and `sh` go by the client's address alone; kube-proxy has `mh` count the port in
 * (`mh-port`), or else one client would get one endpoint.
 */
const optionsOf = (scheduler: string, affinityMs: number): string => {
  const flags = scheduler === 'mh' ? ' -b mh-port' : ''
  const seconds = Math.ceil(affinityMs / 1000)
  return `-s ${scheduler}${flags}${seconds > 0 ? ` -p ${seconds}` : ''}`
}

const vipEntries = (
  servicePort: ServicePort,
  { kind, port }: Vip,
  address: string,
): readonly SetEntry[] => {
  const { internal, external, externalTrafficPolicy } = servicePort
  const entry = `${address},${servicePort.protocol.toLowerCase()}:${port}`
  const isLocal = externalTrafficPolicy === 'Local'
  const entries: SetEntry[] = []
  if (kind === 'ClusterIP') {
    entries.push(['CLUSTER-IP', entry])
    if (internal.verdict === 'drop') entries.push(['CLUSTER-IP-DROP', entry])
    return entries
  }
  if (kind === 'ExternalIP')
    entries.push([isLocal ? 'EXTERNAL-IP-LOCAL' : 'EXTERNAL-IP', entry])
  if (kind === 'LoadBalancerIP') {
    entries.push(['LOAD-BALANCER', entry])
    if (isLocal) entries.push(['LOAD-BALANCER-LOCAL', entry])
    entries.push(...rangeEntries(servicePort, entry, address))
  }
  if (external.verdict === 'drop') entries.push(['EXTERNAL-DROP', entry])
  return entries
}

/** Whole addresses stand in sets without their length. */
const wholeAddress = /\/(?:32|128)$/

const rangeEntries = (
  { sourceRanges, family }: ServicePort,
  entry: string,
  address: string,
): readonly SetEntry[] => {
  if (sourceRanges === undefined) return []
  const whole = family === 'IPv4' ? '/32' : '/128'
  return [
    ['LOAD-BALANCER-FW', entry],
    ...sourceRanges.map((range): SetEntry => {
      const text = range.endsWith(whole) ? range.replace(wholeAddress, '') : range
      const kind =
        text === address ? 'LOAD-BALANCER-SOURCE-IP' : 'LOAD-BALANCER-SOURCE-CIDR'
      return [kind, `${entry},${text}`]
    }),
  ]
}

const nodePortEntries = (
  { protocol, externalTrafficPolicy }: ServicePort,
  { kind, port }: Vip,
  { nodePortAddresses }: CompileSettings,
): readonly SetEntry[] => {
  if (kind !== 'NodePort') return []
  const isLocal = externalTrafficPolicy === 'Local'
  if (protocol === 'SCTP')
    return nodePortAddresses.flatMap((address): readonly SetEntry[] => {
      const entry = `${address},sctp:${port}`
      const local: readonly SetEntry[] = [['NODE-PORT-LOCAL-SCTP-HASH', entry]]
      return [['NODE-PORT-SCTP-HASH', entry], ...(isLocal ? local : [])]
    })
  const local: readonly SetEntry[] = [[`NODE-PORT-LOCAL-${protocol}`, String(port)]]
  return [[`NODE-PORT-${protocol}`, String(port)], ...(isLocal ? local : [])]
}

/** A pod that gets to itself through a Service must not see its own address as the client. */
const hairpinEntries = (
  { protocol }: ServicePort,
  targets: readonly VipTarget[],
): readonly SetEntry[] => {
  const lists = new Set(targets.map(({ target }) => target.endpoints))
  const endpoints = new Set([...lists].flat())
  return Array.from(endpoints, ({ address, port }): SetEntry => {
    return ['LOOP-BACK', `${address},${protocol.toLowerCase()}:${port},${address}`]
  })
}
