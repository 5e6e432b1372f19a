import type { Protocol } from '../../model/service.ts'
import type { ServicePort, Target, Vip, VipKind } from '../../model/snapshot.ts'
import { type AddressPort, type IpFamily, isWildcard } from '../../util/ip.ts'

export type Verdict = Target['verdict']

/** What becomes of packets to one VIP that is steered to the relay. */
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

/** Those of a ServicePort that is steered. */
export const vipRules = (servicePort: ServicePort): readonly VipRule[] => {
  const { vips, steeredTo = [] } = servicePort
  return vips.flatMap((vip, at) => {
    const to = steeredTo[at]
    return to === undefined ? [] : [ruleOf(servicePort, vip, to)]
  })
}

const ruleOf = (
  { name, family, protocol, sourceRanges, ...targets }: ServicePort,
  { kind, port, address: dialled }: Vip,
  to: AddressPort,
): VipRule => {
  const address = isWildcard(dialled) ? undefined : dialled
  const isInside = kind === 'ClusterIP'
  return {
    key: `${address ?? '*'} ${protocol} ${port}`,
    name,
    family,
    kind,
    address,
    protocol,
    port,
    to,
    outside: (isInside ? targets.internal : targets.external).verdict,
    fromNode: (isInside ? targets.internal : targets.externalFromNode).verdict,
    allowedClients: kind === 'LoadBalancerIP' ? sourceRanges : undefined,
  }
}
