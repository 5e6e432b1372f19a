import { addressOf, backendPort, podCidrs } from '../../support/net/addresses.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { KubeProxyRules } from './kube-proxy-part.ts'
import { families } from './objects.ts'
import {
  clusterIpOf,
  externalIpOf,
  loadBalancerIpOf,
  nodePortOf,
  servicePort,
  type TestService,
} from './services.ts'

/** Words of nft for a family. */
const wordsOf = {
  IPv4: { ip: 'ip', address: 'ipv4_addr', loopback: '127.0.0.0/8' },
  IPv6: { ip: 'ip6', address: 'ipv6_addr', loopback: '::1' },
} as const

/** Sets and maps; `elements` of those that one Service with policy Cluster fills. */
const setsText = (service: TestService, family: IpFamily): string => {
  const { address } = wordsOf[family]
  const ofVip = `${address} . inet_proto . inet_service`
  const { own, external } = chainsOf(service)
  const at = (vip: string): string => `${vip} . tcp . ${servicePort}`
  const led = [
    `${at(clusterIpOf(service, family))} : goto ${own}`,
    `${at(externalIpOf(service, family))} : goto ${external}`,
    `${at(loadBalancerIpOf(service, family))} : goto ${external}`,
  ]
  const hairpins = service.backends
    .map(backend => addressOf[backend][family])
    .map(each => `${each} . ${each} . tcp . ${backendPort}`)
  const of = (kind: string, name: string, type: string, elements: readonly string[]) =>
    `${kind} ${name} { type ${type}; ${elements.length > 0 ? `elements = { ${elements.join(', ')} }` : ''} }`
  return [
    of('set', 'cluster-ips', address, [clusterIpOf(service, family)]),
    of('set', 'hairpin-connections', `${address} . ${ofVip}`, hairpins),
    of('map', 'service-ips', `${ofVip} : verdict`, led),
    of('map', 'service-nodeports', 'inet_proto . inet_service : verdict', [
      `tcp . ${nodePortOf(service)} : goto ${external}`,
    ]),
    of('map', 'no-endpoint-services', `${ofVip} : verdict`, []),
    of('map', 'no-endpoint-nodeports', 'inet_proto . inet_service : verdict', []),
    of('map', 'firewall-ips', `${ofVip} : verdict`, []),
  ].join('\n')
}

/** The names of a Service's chains begin with a hash, which nobody here takes apart. */
const chainsOf = ({ name }: TestService) => ({
  own: `service-ULMVA6XW-default/${name}/tcp/tcp`,
  external: `external-ULMVA6XW-default/${name}/tcp/tcp`,
})

const hooks = {
  'filter-prerouting-pre-dnat': 'filter hook prerouting priority -110',
  'filter-output-pre-dnat': 'filter hook output priority -110',
  'filter-input': 'filter hook input priority 0',
  'filter-forward': 'filter hook forward priority 0',
  'filter-output': 'filter hook output priority 0',
  'nat-prerouting': 'nat hook prerouting priority -100',
  'nat-output': 'nat hook output priority -100',
  'nat-postrouting': 'nat hook postrouting priority 100',
} as const

/** With --nodeport-addresses for all addresses, and the pods known by their range. */
const chainsText = (service: TestService, family: IpFamily): string => {
  const { ip, loopback } = wordsOf[family]
  const { own, external } = chainsOf(service)
  const ofVip = `${ip} daddr . meta l4proto . th dport`
  const ofNodePort = 'meta l4proto . th dport'
  const local = `fib daddr type local ${ip} daddr != ${loopback}`
  const to = service.backends.map(
    (backend, i) => `${i} : ${addressOf[backend][family]} . ${backendPort}`,
  )
  const chains: Readonly<Record<string, readonly string[]>> = {
    services: [
      `${ip} daddr @cluster-ips ${ip} saddr != ${podCidrs[family]} mark set mark or 0x4000`,
      `${ofVip} vmap @service-ips`,
      `${local} ${ofNodePort} vmap @service-nodeports`,
    ],
    masquerading: [
      'mark and 0x4000 != 0 mark set mark xor 0x4000 masquerade fully-random',
      `ct status dnat ${ip} saddr . ${ofVip} @hairpin-connections masquerade fully-random`,
    ],
    'firewall-check': [`${ofVip} vmap @firewall-ips`],
    'reject-chain': ['reject'],
    'service-endpoints-check': [`${ofVip} vmap @no-endpoint-services`],
    'nodeport-endpoints-check': [`${local} ${ofNodePort} vmap @no-endpoint-nodeports`],
    'cluster-ips-check': [`${ip} daddr @cluster-ips reject`],
    [own]: [
      `meta l4proto tcp dnat ${ip} addr . port to numgen random mod ${to.length} map { ${to.join(', ')} }`,
    ],
    [external]: ['mark set mark or 0x4000', `goto ${own}`],
    'filter-prerouting-pre-dnat': ['ct state new jump firewall-check'],
    'filter-output-pre-dnat': ['ct state new jump firewall-check'],
    'filter-input': [
      'ct state new jump nodeport-endpoints-check',
      'ct state new jump service-endpoints-check',
    ],
    'filter-forward': [
      'ct state new jump service-endpoints-check',
      'ct state new jump cluster-ips-check',
    ],
    'filter-output': [
      'ct state new jump service-endpoints-check',
      'ct state new jump cluster-ips-check',
    ],
    'nat-prerouting': ['jump services'],
    'nat-output': ['jump services'],
    'nat-postrouting': ['jump masquerading'],
  }
  return Object.entries(chains)
    .map(([name, rules]) => {
      const hook = Object.entries(hooks).find(([chain]) => chain === name)?.[1]
      const head = hook === undefined ? [] : [`type ${hook};`]
      return `chain ${name} {\n${[...head, ...rules].join('\n')}\n}`
    })
    .join('\n')
}

/** As a kube-proxy in nftables mode that starts: a table `kube-proxy` in ip, another in ip6. */
export const nftablesRules = (run: RunTool, service: TestService): KubeProxyRules => ({
  mode: 'nftables',
  write: async () => {
    for (const family of families) {
      const table = `table ${wordsOf[family].ip} kube-proxy`
      const input = `add ${table}\ndelete ${table}\n${table} {\n${setsText(service, family)}\n${chainsText(service, family)}\n}\n`
      await run('nft', ['-f', '-'], { input })
    }
  },
})
