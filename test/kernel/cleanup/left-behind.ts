import type { Netns } from '../../support/netns.ts'

/** A VIP of each kind, so that rules look as they do on a node. */
interface Family {
  readonly vip: string
  readonly endpoint: string
  readonly any: string
  readonly loopback: string
}

export const families: Readonly<Record<'iptables' | 'ip6tables', Family>> = {
  iptables: {
    vip: '10.96.0.10',
    endpoint: '10.1.2.3',
    any: '192.0.2.0/24',
    loopback: '127.0.0.0/8',
  },
  ip6tables: {
    vip: 'fd00:96::10',
    endpoint: 'fd00:1::3',
    any: '2001:db8::/32',
    loopback: '::1/128',
  },
}

const to = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`

/** Chains and rules of one table. */
export const table = (
  name: string,
  chains: readonly string[],
  rules: readonly string[],
): string =>
  [`*${name}`, ...chains.map(chain => `:${chain} - [0:0]`), ...rules, 'COMMIT', ''].join(
    '\n',
  )

const newOnly = '-m conntrack --ctstate NEW'
const says = (text: string): string => `-m comment --comment "${text}"`

/** What the userspace mode writes: five chains, and rules to proxy ports. */
const userspaceMode = ({ vip, endpoint }: Family): string => {
  const portals = says('handle ClusterIPs; NOTE: this must be before the NodePort rules')
  const nodePorts = `-m addrtype --dst-type LOCAL ${says(
    'handle service NodePorts; NOTE: this must be the last rule in the chain',
  )}`
  const dns = `-d ${vip} -p udp ${says('kube-system/dns:dns')} -m udp --dport 53`
  return [
    table(
      'nat',
      [
        'KUBE-PORTALS-CONTAINER',
        'KUBE-PORTALS-HOST',
        'KUBE-NODEPORT-CONTAINER',
        'KUBE-NODEPORT-HOST',
      ],
      [
        `-I PREROUTING ${portals} -j KUBE-PORTALS-CONTAINER`,
        `-I OUTPUT ${portals} -j KUBE-PORTALS-HOST`,
        `-A PREROUTING ${nodePorts} -j KUBE-NODEPORT-CONTAINER`,
        `-A OUTPUT ${nodePorts} -j KUBE-NODEPORT-HOST`,
        `-A KUBE-PORTALS-CONTAINER ${dns} -j REDIRECT --to-ports 41000`,
        `-A KUBE-PORTALS-HOST ${dns} -j DNAT --to-destination ${to(endpoint, 41000)}`,
        '-A KUBE-NODEPORT-CONTAINER -p tcp -m tcp --dport 30080 -j REDIRECT --to-ports 41001',
      ],
    ),
    table(
      'filter',
      ['KUBE-NODEPORT-NON-LOCAL'],
      [
        `-I INPUT ${says('Ensure that non-local NodePort traffic can flow')} -j KUBE-NODEPORT-NON-LOCAL`,
        '-A KUBE-NODEPORT-NON-LOCAL -p tcp -m tcp --dport 41001 -m state --state NEW -j ACCEPT',
      ],
    ),
  ].join('')
}

const hash = 'ABCDEFGHIJKLMN23'

/** The iptables mode of today, with what of older ones it has no more. */
export const iptablesMode = ({ vip, endpoint, any, loopback }: Family): string => {
  const portals = says('kubernetes service portals')
  const cluster = `-d ${vip} -p tcp ${says('default/web:http cluster IP')} -m tcp --dport 80`
  const hashed = ['SVC', 'SVL', 'EXT', 'FW', 'SEP', 'XLB'].map(
    kind => `KUBE-${kind}-${hash}`,
  )
  return [
    table('mangle', ['KUBE-PROXY-CANARY'], []),
    table(
      'nat',
      [
        'KUBE-SERVICES',
        'KUBE-NODEPORTS',
        'KUBE-POSTROUTING',
        'KUBE-MARK-MASQ',
        'KUBE-PROXY-CANARY',
        ...hashed,
      ],
      [
        `-I PREROUTING ${portals} -j KUBE-SERVICES`,
        `-I OUTPUT ${portals} -j KUBE-SERVICES`,
        `-I POSTROUTING ${says('kubernetes postrouting rules')} -j KUBE-POSTROUTING`,
        '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
        '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
        '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
        `-A KUBE-POSTROUTING ${says('kubernetes service traffic requiring SNAT')} -j MASQUERADE --random-fully`,
        `-A KUBE-SERVICES ${cluster} -j KUBE-SVC-${hash}`,
        `-A KUBE-SERVICES -m addrtype --dst-type LOCAL ! -d ${loopback} -j KUBE-NODEPORTS`,
        `-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-${hash}`,
        `-A KUBE-EXT-${hash} -j KUBE-MARK-MASQ`,
        `-A KUBE-EXT-${hash} -j KUBE-SVC-${hash}`,
        `-A KUBE-FW-${hash} -s ${any} -j KUBE-XLB-${hash}`,
        `-A KUBE-SVC-${hash} -m recent --name KUBE-SEP-${hash} --rcheck --seconds 10800 --reap -j KUBE-SEP-${hash}`,
        `-A KUBE-SVC-${hash} ${says(`default/web:http -> ${to(endpoint, 80)}`)} -m statistic --mode random --probability 0.5 -j KUBE-SEP-${hash}`,
        `-A KUBE-SEP-${hash} -s ${endpoint} -j KUBE-MARK-MASQ`,
        `-A KUBE-SEP-${hash} -p tcp -m recent --name KUBE-SEP-${hash} --set -m tcp -j DNAT --to-destination ${to(endpoint, 80)}`,
      ],
    ),
    table(
      'filter',
      [
        'KUBE-SERVICES',
        'KUBE-EXTERNAL-SERVICES',
        'KUBE-NODEPORTS',
        'KUBE-FORWARD',
        'KUBE-PROXY-FIREWALL',
        'KUBE-PROXY-CANARY',
      ],
      [
        `-I INPUT ${newOnly} ${says('kubernetes externally-visible service portals')} -j KUBE-EXTERNAL-SERVICES`,
        `-I INPUT ${says('kubernetes health check service ports')} -j KUBE-NODEPORTS`,
        ...['INPUT', 'FORWARD', 'OUTPUT'].flatMap(chain => [
          `-I ${chain} ${newOnly} ${says('kubernetes service portals')} -j KUBE-SERVICES`,
          `-I ${chain} ${newOnly} ${says('kubernetes load balancer firewall')} -j KUBE-PROXY-FIREWALL`,
        ]),
        `-I FORWARD ${says('kubernetes forwarding rules')} -j KUBE-FORWARD`,
        '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
        `-A KUBE-SERVICES -d ${vip} -p tcp ${says('default/none has no endpoints')} -m tcp --dport 81 -j REJECT`,
      ],
    ),
  ].join('')
}

/** The ipvs mode's sets, by their types. */
const sets: readonly (readonly [type: string, ...names: string[]])[] = [
  ['hash:ip,port,ip', 'LOOP-BACK', 'LOAD-BALANCER-SOURCE-IP'],
  ['hash:ip,port', 'CLUSTER-IP', 'EXTERNAL-IP', 'LOAD-BALANCER', 'NODE-PORT-SCTP-HASH'],
  ['hash:ip,port,net', 'LOAD-BALANCER-SOURCE-CIDR'],
  ['bitmap:port', 'NODE-PORT-TCP', 'NODE-PORT-LOCAL-UDP', 'HEALTH-CHECK-NODE-PORT'],
  ['hash:ip', 'IPVS-IPS'],
]

export const createSets = (program: 'iptables' | 'ip6tables'): string =>
  sets
    .flatMap(([type, ...names]) =>
      names.map(name => {
        const family = program === 'iptables' ? 'KUBE-' : 'KUBE-6-'
        const inet = program === 'iptables' ? 'inet' : 'inet6'
        const more = type === 'bitmap:port' ? 'range 0-65535' : `family ${inet}`
        return `create ${`${family}${name}`.slice(0, 31)} ${type} ${more}\n`
      }),
    )
    .join('')

/** The ipvs mode's rules; few, and most of them ask sets. */
export const ipvsMode = (program: 'iptables' | 'ip6tables'): string => {
  const set = (name: string, flags: string): string =>
    `-m set --match-set ${program === 'iptables' ? 'KUBE-' : 'KUBE-6-'}${name} ${flags}`
  return [
    table(
      'nat',
      [
        'KUBE-SERVICES',
        'KUBE-POSTROUTING',
        'KUBE-MARK-MASQ',
        'KUBE-NODE-PORT',
        'KUBE-LOAD-BALANCER',
        'KUBE-FIREWALL',
        'KUBE-MARK-DROP',
      ],
      [
        `-I PREROUTING ${says('kubernetes service portals')} -j KUBE-SERVICES`,
        `-I POSTROUTING ${says('kubernetes postrouting rules')} -j KUBE-POSTROUTING`,
        `-A KUBE-POSTROUTING ${set('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE`,
        `-A KUBE-SERVICES ${set('LOAD-BALANCER', 'dst,dst')} -j KUBE-LOAD-BALANCER`,
        `-A KUBE-SERVICES ${set('CLUSTER-IP', 'src,dst')} -j KUBE-MARK-MASQ`,
        '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
        `-A KUBE-NODE-PORT -p tcp ${set('NODE-PORT-TCP', 'dst')} -j KUBE-MARK-MASQ`,
        '-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ',
        '-A KUBE-FIREWALL -j KUBE-MARK-DROP',
      ],
    ),
    table(
      'filter',
      [
        'KUBE-NODE-PORT',
        'KUBE-IPVS-FILTER',
        'KUBE-IPVS-OUT-FILTER',
        'KUBE-PROXY-FIREWALL',
        'KUBE-SOURCE-RANGES-FIREWALL',
      ],
      [
        `-I INPUT ${says('kubernetes ipvs access filter')} -j KUBE-IPVS-FILTER`,
        `-I OUTPUT ${says('kubernetes ipvs access filter')} -j KUBE-IPVS-OUT-FILTER`,
        `-I INPUT ${says('kubernetes health check rules')} -j KUBE-NODE-PORT`,
        `-I INPUT ${says('kube-proxy firewall rules')} -j KUBE-PROXY-FIREWALL`,
        `-A KUBE-PROXY-FIREWALL ${set('LOAD-BALANCER', 'dst,dst')} -j KUBE-SOURCE-RANGES-FIREWALL`,
        '-A KUBE-SOURCE-RANGES-FIREWALL -j DROP',
        `-A KUBE-IPVS-FILTER ${newOnly} ${set('IPVS-IPS', 'dst')} -j REJECT`,
      ],
    ),
  ].join('')
}

/** Rules as Usher's iptables capture may have them, and where it enters them. */
export const usherRules = table(
  'nat',
  ['KUBE-PORTALS-CONTAINER', 'KUBE-USHER-VIPS'],
  [
    '-I PREROUTING -j KUBE-PORTALS-CONTAINER',
    '-I OUTPUT -j KUBE-USHER-VIPS',
    '-A KUBE-PORTALS-CONTAINER -j KUBE-USHER-VIPS',
  ],
)

const nftTables = [
  'ip usher',
  'ip6 usher',
  'ip usher-probe-7',
  'ip kube-proxy',
  'ip6 kube-proxy',
]

/** What leads to nothing any more when Usher or kube-proxy ends. */
export const leaveAll = async (ns: Netns): Promise<void> => {
  await ns.run('ipset', ['restore'], { input: createSets('iptables') })
  await ns.run('ipset', ['restore'], { input: createSets('ip6tables') })
  for (const program of ['iptables', 'ip6tables'] as const) {
    const input = [userspaceMode, iptablesMode].map(mode => mode(families[program]))
    for (const backEnd of ['nft', 'legacy']) {
      await ns.run(`${program}-${backEnd}-restore`, ['--noflush'], {
        input: [...input, usherRules, ipvsMode(program)].join(''),
      })
    }
  }
  const rules = nftTables.map(
    name => `table ${name} {
      set vips {
        type inet_service
        elements = { 80, 443 }
      }
      chain served {
        meta l4proto tcp accept
      }
      chain nat-prerouting {
        type nat hook prerouting priority -100
        tcp dport @vips jump served
      }
    }`,
  )
  await ns.run('nft', ['-f', '-'], { input: rules.join('\n') })
  await ns.run('ip', ['-batch', '-'], {
    input: [
      'link add kube-ipvs0 type bridge',
      'address add 10.96.0.10/32 dev kube-ipvs0',
      'link add usher0 type bridge',
      'address add 10.96.0.11/32 dev usher0',
      'route add local 169.254.77.88/32 dev lo proto 117',
      'route add local 10.97.0.0/16 dev lo proto 117',
      'address add fd75:7368:6572::1/128 dev lo nodad',
      'address add fd00:97::1/128 dev lo nodad noprefixroute metric 1970497650',
      '',
    ].join('\n'),
  })
}

/** A little of several kinds, where only that something is there counts. */
export const leaveSome = async (ns: Netns): Promise<void> => {
  await ns.run('nft', ['add', 'table', 'ip', 'kube-proxy'])
  await ns.run('iptables-legacy', ['-t', 'nat', '-N', 'KUBE-SERVICES'])
  await ns.run('ipset', ['create', 'KUBE-CLUSTER-IP', 'hash:ip,port'])
  await ns.run('ip', ['link', 'add', 'usher0', 'type', 'bridge'])
}
