import { createHash } from 'node:crypto'
import { addressOf, backendPort } from '../../support/net/addresses.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { IptablesBackEnd } from './foreign.ts'
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

const programs = { IPv4: 'iptables', IPv6: 'ip6tables' } as const
const says = (text: string): string => `-m comment --comment "${text}"`

const jumps = [
  [
    'filter',
    'INPUT -m conntrack --ctstate NEW',
    'kubernetes externally-visible service portals',
    'KUBE-EXTERNAL-SERVICES',
  ],
  [
    'filter',
    'FORWARD -m conntrack --ctstate NEW',
    'kubernetes externally-visible service portals',
    'KUBE-EXTERNAL-SERVICES',
  ],
  ['filter', 'INPUT', 'kubernetes health check service ports', 'KUBE-NODEPORTS'],
  [
    'filter',
    'FORWARD -m conntrack --ctstate NEW',
    'kubernetes service portals',
    'KUBE-SERVICES',
  ],
  [
    'filter',
    'OUTPUT -m conntrack --ctstate NEW',
    'kubernetes service portals',
    'KUBE-SERVICES',
  ],
  ['filter', 'FORWARD', 'kubernetes forwarding rules', 'KUBE-FORWARD'],
  ...['INPUT', 'OUTPUT', 'FORWARD'].map(chain => [
    'filter',
    `${chain} -m conntrack --ctstate NEW`,
    'kubernetes load balancer firewall',
    'KUBE-PROXY-FIREWALL',
  ]),
  ['nat', 'OUTPUT', 'kubernetes service portals', 'KUBE-SERVICES'],
  ['nat', 'PREROUTING', 'kubernetes service portals', 'KUBE-SERVICES'],
  ['nat', 'POSTROUTING', 'kubernetes postrouting rules', 'KUBE-POSTROUTING'],
] as const

const hashOf = (text: string): string =>
  Array.from(createHash('sha256').update(text).digest().subarray(0, 16), byte =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.charAt(byte & 31),
  ).join('')

const constantChains = [
  'KUBE-SERVICES',
  'KUBE-NODEPORTS',
  'KUBE-POSTROUTING',
  'KUBE-MARK-MASQ',
  'KUBE-PROXY-CANARY',
]

/** The last one takes all that is left. */
const chance = (left: number): string =>
  left === 1 ? '' : ` -m statistic --mode random --probability ${1 / left}`

/** One Service with policy Cluster, TCP, as the iptables mode has it. */
const natText = (service: TestService, family: IpFamily): string => {
  const [svc, ext] = ['SVC', 'EXT'].map(kind => `KUBE-${kind}-${hashOf(service.name)}`)
  const endpoints = service.backends.map(backend => addressOf[backend][family])
  const seps = endpoints.map(address => `KUBE-SEP-${hashOf(service.name + address)}`)
  const to = (address: string): string =>
    address.includes(':') ? `[${address}]:${backendPort}` : `${address}:${backendPort}`
  const at = (address: string): string =>
    `-A KUBE-SERVICES -d ${address} -p tcp -m tcp --dport ${servicePort}`
  const loopback = family === 'IPv4' ? '' : ' ! -d ::1/128'
  return [
    '*nat',
    ...[...constantChains, svc, ext, ...seps].map(chain => `:${chain} - [0:0]`),
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
    `-A KUBE-POSTROUTING ${says('kubernetes service traffic requiring SNAT')} -j MASQUERADE`,
    '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
    `${at(clusterIpOf(service, family))} -j ${svc}`,
    `${at(externalIpOf(service, family))} -j ${ext}`,
    `${at(loadBalancerIpOf(service, family))} -j ${ext}`,
    `-A KUBE-SERVICES -m addrtype --dst-type LOCAL${loopback} -j KUBE-NODEPORTS`,
    `-A KUBE-NODEPORTS -p tcp -m tcp --dport ${nodePortOf(service)} -j ${ext}`,
    `-A ${ext} -j KUBE-MARK-MASQ`,
    `-A ${ext} -j ${svc}`,
    ...seps.flatMap((sep, i) => [
      `-A ${svc}${chance(seps.length - i)} -j ${sep}`,
      `-A ${sep} -s ${endpoints[i]} -j KUBE-MARK-MASQ`,
      `-A ${sep} -p tcp -m tcp -j DNAT --to-destination ${to(endpoints[i] ?? '')}`,
    ]),
    'COMMIT\n',
  ].join('\n')
}

const filterText = [
  '*filter',
  ':KUBE-SERVICES - [0:0]',
  ':KUBE-EXTERNAL-SERVICES - [0:0]',
  ':KUBE-NODEPORTS - [0:0]',
  ':KUBE-FORWARD - [0:0]',
  ':KUBE-PROXY-FIREWALL - [0:0]',
  ':KUBE-PROXY-CANARY - [0:0]',
  '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
  '-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT',
  '-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  'COMMIT\n',
].join('\n')

/**
 * As a kube-proxy in iptables mode that starts: chains of its names are written anew in one
 * transaction, jumps that are missing are put in, chains of Services that it does not know are
 * taken out.
 */
export const iptablesRules = (
  run: RunTool,
  backEnd: IptablesBackEnd,
  service: TestService,
): KubeProxyRules => ({
  mode: 'iptables',
  write: async () => {
    for (const family of families) await writeFamily(run, backEnd, service, family)
  },
})

const writeFamily = async (
  run: RunTool,
  backEnd: IptablesBackEnd,
  service: TestService,
  family: IpFamily,
): Promise<void> => {
  const program = `${programs[family]}-${backEnd}`
  const saved = await run(`${program}-save`, [])
  const text = filterText + natText(service, family)
  const stale = [...saved.matchAll(/^:(KUBE-(?:SVC|SVL|EXT|FW|SEP)-\w{16}) /gm)]
    .map(([, chain = '']) => chain)
    .filter(chain => !text.includes(chain))
  const emptied = stale.map(chain => `:${chain} - [0:0]\n`).join('')
  const deleted = stale.map(chain => `-X ${chain}\n`).join('')
  const input = `*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n${text
    .replace('*nat\n', `*nat\n${emptied}`)
    .replace(/COMMIT\n$/, `${deleted}COMMIT\n`)}`
  await run(`${program}-restore`, ['--noflush', '-w', '5'], { input })
  for (const [table, match, comment, target] of jumps) {
    const [chain = '', ...rest] = match.split(' ')
    const rule = [...rest, '-m', 'comment', '--comment', comment, '-j', target]
    const call = (verb: string) =>
      run(program, ['-w', '5', '-t', table, verb, chain, ...rule])
    await call('-C').catch(() => call('-I'))
  }
}
