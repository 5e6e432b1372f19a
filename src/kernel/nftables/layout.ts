import type { ChainPart } from '../nft/parts.ts'
import { afterIptables } from '../nft/tables.ts'
import type { Context } from './context.ts'
import { flowRule } from './flowtable.ts'

type SetDefinition = readonly [kind: 'map' | 'set', text: string]

/**
 * The sets and maps that are the same whatever Services there are, by name. Names are
 * kube-proxy's where they mean the same.
 */
export const setDefinitions = ({
  words,
  form,
}: Context): Readonly<Record<string, SetDefinition>> => {
  const { family: ip, addressType: address } = words
  const vip = `${address} . inet_proto . inet_service`
  const nodePort = 'inet_proto . inet_service'
  return {
    'service-ips': ['map', `type ${vip} : verdict;`],
    'from-node-service-ips': ['map', `type ${vip} : verdict;`],
    'service-nodeports': ['map', `type ${nodePort} : verdict;`],
    'from-node-nodeports': ['map', `type ${nodePort} : verdict;`],
    ...(form === 'shared' && Object.fromEntries(endpointMaps(ip))),
    'no-endpoint-services': ['map', `type ${vip} : verdict;`],
    'no-endpoint-nodeports': ['map', `type ${nodePort} : verdict;`],
    'firewall-ips': ['map', `type ${vip} : verdict;`],
    'cluster-ips': ['set', `type ${address};`],
    'hairpin-connections': [
      'set',
      `type ${address} . ${address} . inet_proto . inet_service;`,
    ],
    stamp: ['set', 'type mark;'],
  }
}

/**
 * One for each protocol: a `typeof` that has no protocol of its own (`th dport`) is accepted, but
 * nft 1.0.6 then takes the first rule for one of TCP, and refuses those that come later.
 */
const endpointMaps = (
  ip: string,
): readonly (readonly [name: string, definition: SetDefinition])[] =>
  (['tcp', 'udp', 'sctp'] as const).flatMap(protocol => {
    const key = `${protocol} dport . numgen random mod 2`
    const value = `${ip} daddr . ${protocol} dport`
    return [
      [`endpoints-${protocol}`, ['map', `typeof ${ip} daddr . ${key} : ${value};`]],
      [`nodeport-endpoints-${protocol}`, ['map', `typeof ${key} : ${value};`]],
    ] as const
  })

const base = (
  name: string,
  hook: string,
  priority: number,
  rules: readonly string[],
): ChainPart => {
  const type = hook.startsWith('nat ') ? hook : `filter hook ${hook}`
  return {
    kind: 'chain',
    name,
    hook: `type ${type} priority ${priority}; policy accept;`,
    rules,
  }
}

/**
 * The chains that are the same whatever Services there are. A packet of a connection that stands
 * meets one comparison in each chain of filters, and none of nat; a new one is looked up in hash
 * tables. Those of -110 are before nat, and see the VIP itself; those of 0 see what nat has not
 * led on.
 */
export const fixedChains = (context: Context): readonly ChainPart[] => [
  ...natChains(context),
  ...filterChains(context),
]

const natChains = (context: Context): readonly ChainPart[] => {
  const { words, vip, nodePort, toNode, ifLocal, bit } = context
  const { family: ip } = words
  const nodePorts = `${nodePort} vmap @service-nodeports`
  const fromNode = `${nodePort} vmap @from-node-nodeports`
  return [
    {
      kind: 'chain',
      name: 'node-ports',
      rules: [...ifLocal.map(pods => `${pods} ${fromNode}`), nodePorts],
    },
    { kind: 'chain', name: 'node-ports-from-node', rules: [fromNode, nodePorts] },
    base('nat-prerouting', 'nat hook prerouting', afterIptables, [
      ...ifLocal.map(pods => `${pods} ${vip} vmap @from-node-service-ips`),
      `${vip} vmap @service-ips`,
      `${toNode} jump node-ports`,
    ]),
    base('nat-output', 'nat hook output', afterIptables, [
      `${vip} vmap @from-node-service-ips`,
      `${vip} vmap @service-ips`,
      `${toNode} jump node-ports-from-node`,
    ]),
    base('nat-postrouting', 'nat hook postrouting', 100, [
      // A packet may come through the stack again, and is not masqueraded twice.
      `meta mark & ${bit} != 0 meta mark set meta mark ^ ${bit} masquerade fully-random`,
      `ct status & dnat != 0 ${ip} saddr . ${ip} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random`,
    ]),
  ]
}

const filterChains = (context: Context): readonly ChainPart[] => {
  const { words, vip, nodePort, toNode, serviceCidrs, flowtableDevices } = context
  const { family: ip } = words
  const firewall = [`ct state new ${vip} vmap @firewall-ips`]
  const unserved = `${vip} vmap @no-endpoint-services`
  const unused =
    serviceCidrs.length === 0 ? [] : [`${ip} daddr { ${serviceCidrs.join(', ')} } drop`]
  return [
    // By a reset, as the kernel limits how many it says by ICMP (net.ipv4.icmp_ratelimit).
    {
      kind: 'chain',
      name: 'refuse',
      rules: ['meta l4proto 6 reject with tcp reset', 'reject'],
    },
    {
      kind: 'chain',
      name: 'cluster-ips-check',
      rules: [unserved, `${ip} daddr @cluster-ips goto refuse`, ...unused],
    },
    base('filter-prerouting-pre-dnat', 'prerouting', -110, firewall),
    base('filter-output-pre-dnat', 'output', -110, firewall),
    base('filter-input', 'input', 0, [
      `ct state new ${unserved}`,
      `ct state new ${toNode} ${nodePort} vmap @no-endpoint-nodeports`,
    ]),
    base('filter-forward', 'forward', 0, [
      'ct state new jump cluster-ips-check',
      ...(flowtableDevices.length > 0 ? [flowRule] : []),
    ]),
    base('filter-output', 'output', 0, ['ct state new jump cluster-ips-check']),
  ]
}
