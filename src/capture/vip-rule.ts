import type { Protocol } from '../model/service.ts'
import type { ServicePort, Target, VipKind } from '../model/snapshot.ts'
import { type AddressPort, type IpFamily, isWildcard } from '../util/ip.ts'
import type { Placement, VipPlacement } from './capture.ts'
import { vipGroups } from './vip-group.ts'

export type Verdict = Target['verdict']

/** What becomes of packets to one VIP: plain data, equal when nothing has changed. */
export interface VipRule {
  /** `10.96.0.1 TCP 80`, or `* UDP 30053` for a node port; unique within a family. */
  readonly key: string
  /** `namespace/name:port`, for people who read the rules. */
  readonly name: string
  readonly family: IpFamily
  readonly kind: VipKind
  /** Undefined for a node port: all addresses that answer node ports. */
  readonly address: string | undefined
  readonly protocol: Protocol
  readonly port: number
  /** The proxy port. Used when a verdict is `forward`. */
  readonly to: AddressPort
  /** For clients elsewhere, and for processes and pods of this node. */
  readonly outside: Verdict
  readonly fromNode: Verdict
  /** Canonical CIDRs; clients outside of them are dropped, first of all. Undefined: none. */
  readonly allowedClients: readonly string[] | undefined
}

/** A plain one for probes to make theirs of. */
export const probedRule = (
  family: IpFamily,
  { address, port }: AddressPort,
  to: AddressPort,
): VipRule => ({
  key: 'probe',
  name: 'default/probe',
  family,
  kind: 'ExternalIP',
  address,
  protocol: 'TCP',
  port,
  to,
  outside: 'forward',
  fromNode: 'forward',
  allowedClients: undefined,
})

/** The rules for the VIPs of one ServicePort that have a proxy port. */
export const vipRules = ({ servicePort, vips }: Placement): readonly VipRule[] =>
  vips.flatMap(placed => ruleOf(servicePort, placed) ?? [])

const ruleOf = (
  servicePort: ServicePort,
  { vip, binds }: VipPlacement,
): VipRule | undefined => {
  const [to] = binds
  if (to === undefined) return undefined
  const { name, family, protocol, sourceRanges } = servicePort
  const address = isWildcard(vip.address) ? undefined : vip.address
  const group = vipGroups(servicePort)[vip.kind]
  const { internal, external, externalFromNode } = servicePort
  const isInternal = group === 'internal'
  return {
    key: `${address ?? '*'} ${protocol} ${vip.port}`,
    name,
    family,
    kind: vip.kind,
    address,
    protocol,
    port: vip.port,
    to: { address: to.address, port: to.port },
    outside: (isInternal ? internal : external).verdict,
    fromNode: (isInternal ? internal : externalFromNode).verdict,
    allowedClients: group === 'load-balancer' ? sourceRanges : undefined,
  }
}
