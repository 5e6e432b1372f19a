import { cidrContains, parseCidr } from '../../util/cidr.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { KernelSettings } from '../proxier.ts'
import type { Chain } from '../xtables/wanted.ts'
import { hasLocalhostNodePorts } from './context.ts'
import { named } from '../xtables/kube-chains.ts'
import { comment } from './service.ts'
import { counters, type Features } from './features.ts'

/** As kube-proxy writes it: `0x00004000`. */
const markOf = ({ masqueradeBit }: KernelSettings): string =>
  `0x${(2 ** masqueradeBit).toString(16).padStart(8, '0')}`

/** filter KUBE-FORWARD. */
export const forwardChain = (settings: KernelSettings, features: Features): Chain => {
  const mark = markOf(settings)
  const counter = features.nfacct
    ? `-m nfacct --nfacct-name ${counters.invalidDropped} `
    : ''
  // What conntrack can't place keeps a client's addresses on its way, and its far end
  // would reset the connection (kubernetes/kubernetes #74839, #117924).
  const invalid = `-m conntrack --ctstate INVALID ${counter}-j DROP`
  const forward = comment('kubernetes forwarding rules')
  const known = comment('kubernetes forwarding conntrack rule')
  return {
    name: named.forward,
    lines: [
      ...(features.conntrackLiberal ? [] : [invalid]),
      `${forward} -m mark --mark ${mark}/${mark} -j ACCEPT`,
      `${known} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
    ],
  }
}

/** nat KUBE-POSTROUTING and KUBE-MARK-MASQ. */
export const masqueradeChains = (
  settings: KernelSettings,
  { randomFully }: Features,
): readonly Chain[] => {
  const mark = markOf(settings)
  const why = comment('kubernetes service traffic requiring SNAT')
  return [
    {
      name: named.postrouting,
      lines: [
        `-m mark ! --mark ${mark}/${mark} -j RETURN`,
        // A packet may come through the stack again, and is not masqueraded twice.
        `-j MARK --xor-mark ${mark}`,
        `${why} -j MASQUERADE${randomFully ? ' --random-fully' : ''}`,
      ],
    },
    { name: named.markMasq, lines: [`-j MARK --or-mark ${mark}`] },
  ]
}

/** The end of nat KUBE-SERVICES: what leads to node ports. */
export const nodePortJumps = (
  family: IpFamily,
  settings: KernelSettings,
): readonly string[] => {
  const why = comment(
    'kubernetes service nodeports; NOTE: this must be the last rule in this chain',
  )
  const line = (match: string): string => `${why} ${match} -j ${named.nodePorts}`
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

/**
 * The kubelet's rule of KUBE-FIREWALL, which kube-proxy writes too since 1.27, as
 * iptables-save prints it: route_localnet would let neighbours reach 127.0.0.1
 * (CVE-2020-8558).
 */
export const localnetRule =
  `! -s 127.0.0.0/8 -d 127.0.0.0/8 ${comment('block incoming localnet connections')}` +
  ' -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'
