import type { IpFamily } from '../../util/ip.ts'
import { type KernelSettings, plainSettings } from '../proxier.ts'
import { modeOwner } from '../xtables/kube-chains.ts'
import { ifLocal } from '../xtables/local-pods.ts'
import {
  type Chain,
  type Jump,
  jumpComment,
  jumpTo,
  newConnection,
} from '../xtables/wanted.ts'
import { type SetKind, setName, vipSetKinds } from './set-names.ts'

type TableName = 'filter' | 'mangle' | 'nat'

export interface RuleTable {
  readonly name: TableName
  /** Its built-in chains from which a mode of kube-proxy's may lead into chains. */
  readonly builtIn: readonly string[]
  readonly chains: readonly Chain[]
  readonly jumps: readonly Jump[]
}

/**
 * What keeps out comes before what leads somewhere: each table is a transaction of its own.
 */
export const ruleTables = (
  family: IpFamily,
  settings: KernelSettings,
  fullyRandom: boolean,
  setOf = (kind: SetKind): string => setName(family, kind),
): readonly RuleTable[] => {
  const matches = matchesOf(family, settings, setOf)
  return [
    {
      name: 'filter',
      builtIn: ['INPUT', 'FORWARD', 'OUTPUT'],
      chains: filterChains(matches),
      jumps: jumps.filter,
    },
    {
      name: 'mangle',
      builtIn: ['OUTPUT'],
      chains: mangleChains(matches),
      jumps: jumps.mangle,
    },
    {
      name: 'nat',
      builtIn: ['PREROUTING', 'OUTPUT', 'POSTROUTING'],
      chains: natChains(matches, settings, fullyRandom),
      jumps: jumps.nat,
    },
  ]
}

const commented = (chain: string, target: string, comment: string): Jump =>
  jumpTo(chain, target, jumpComment(comment))
const portals = 'kubernetes service portals'
const access = 'kubernetes ipvs access filter'

/** With kube-proxy's comments, by which its --cleanup finds them. */
export const jumps: Readonly<Record<TableName, readonly Jump[]>> = {
  filter: [
    commented('INPUT', 'KUBE-NODE-PORT', 'kubernetes health check rules'),
    commented('INPUT', 'KUBE-IPVS-FILTER', access),
    commented('INPUT', 'KUBE-PROXY-FIREWALL', 'kube-proxy firewall rules'),
    commented('FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules'),
  ],
  mangle: [commented('OUTPUT', 'KUBE-IPVS-OUT-FILTER', access)],
  nat: [
    commented('PREROUTING', 'KUBE-SERVICES', portals),
    commented('OUTPUT', 'KUBE-SERVICES', portals),
    commented('POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules'),
  ],
}

/** The matches that rules are made of, which depend on the family and the settings. */
interface Matches {
  readonly family: IpFamily
  readonly mark: string
  readonly isSet: (kind: SetKind, directions?: string) => string
  /** A match for each way in which packets of this node's pods come; none when that is not known. */
  readonly fromPods: readonly string[]
}

const matchesOf = (
  family: IpFamily,
  settings: KernelSettings,
  setOf: (kind: SetKind) => string,
): Matches => ({
  family,
  mark: `0x${(2 ** settings.masqueradeBit).toString(16)}`,
  isSet: (kind, directions = 'dst,dst') =>
    `-m set --match-set ${setOf(kind)} ${directions}`,
  fromPods: ifLocal(settings.localDetector),
})

const isOwnClient = '-m addrtype --src-type LOCAL'

const filterChains = ({ isSet, mark, fromPods }: Matches): readonly Chain[] => [
  {
    name: 'KUBE-FORWARD',
    lines: [
      `-m mark --mark ${mark}/${mark} -j ACCEPT`,
      '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    ],
  },
  {
    name: 'KUBE-NODE-PORT',
    lines: [`-p tcp ${isSet('HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT`],
  },
  {
    name: 'KUBE-PROXY-FIREWALL',
    lines: [
      `${newConnection} ${isSet('LOAD-BALANCER-FW')} -j KUBE-SOURCE-RANGES-FIREWALL`,
    ],
  },
  sourceRangesFirewall(isSet),
  {
    name: 'KUBE-IPVS-FILTER',
    lines: [
      `${newConnection} ${isSet('CLUSTER-IP-DROP')} -j DROP`,
      // The node's own processes don't come by here: ipvs takes what they send in OUTPUT.
      ...fromPods.map(pods => `${pods} ${isSet('EXTERNAL-DROP')} -j RETURN`),
      `${newConnection} ${isSet('EXTERNAL-DROP')} -j DROP`,
      ...vipSetKinds.map(kind => `${isSet(kind)} -j RETURN`),
      `-p tcp ${isSet('HEALTH-CHECK-NODE-PORT', 'dst')} -j RETURN`,
      // Else what listens on all addresses of the node would answer on every VIP.
      `${newConnection} ${isSet('IPVS-IPS', 'dst')} -j REJECT`,
    ],
  },
]

const sourceRangesFirewall = (isSet: Matches['isSet']): Chain => ({
  name: 'KUBE-SOURCE-RANGES-FIREWALL',
  lines: [
    `${isSet('LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src')} -j RETURN`,
    `${isSet('LOAD-BALANCER-SOURCE-IP', 'dst,dst,src')} -j RETURN`,
    '-j DROP',
  ],
})

/**
 * For the node's own processes: ipvs takes what they send after mangle and before filter,
 * and nat can't drop.
 */
const mangleChains = ({ isSet }: Matches): readonly Chain[] => [
  sourceRangesFirewall(isSet),
  {
    name: 'KUBE-IPVS-OUT-FILTER',
    lines: [
      `${newConnection} ${isSet('CLUSTER-IP-DROP')} -j DROP`,
      `${newConnection} ${isSet('LOAD-BALANCER-FW')} -j KUBE-SOURCE-RANGES-FIREWALL`,
    ],
  },
]

const natChains = (
  matches: Matches,
  settings: KernelSettings,
  fullyRandom: boolean,
): readonly Chain[] => {
  const { isSet, mark, family } = matches
  return [
    { name: 'KUBE-MARK-MASQ', lines: [`-j MARK --or-mark ${mark}`] },
    {
      name: 'KUBE-POSTROUTING',
      lines: [
        `${isSet('LOOP-BACK', 'dst,dst,src')} -j MASQUERADE`,
        `-m mark ! --mark ${mark}/${mark} -j RETURN`,
        `-j MARK --xor-mark ${mark}`,
        `-j MASQUERADE${fullyRandom ? ' --random-fully' : ''}`,
      ],
    },
    {
      name: 'KUBE-LOAD-BALANCER',
      lines: [
        `${isOwnClient} -j KUBE-MARK-MASQ`,
        `${isSet('LOAD-BALANCER-LOCAL')} -j RETURN`,
        '-j KUBE-MARK-MASQ',
      ],
    },
    {
      name: 'KUBE-NODE-PORT',
      lines: (
        [
          ['tcp', 'NODE-PORT-LOCAL-TCP', 'NODE-PORT-TCP', 'dst'],
          ['udp', 'NODE-PORT-LOCAL-UDP', 'NODE-PORT-UDP', 'dst'],
          ['sctp', 'NODE-PORT-LOCAL-SCTP-HASH', 'NODE-PORT-SCTP-HASH', 'dst,dst'],
        ] as const
      ).flatMap(([protocol, local, all, by]) => [
        `-p ${protocol} ${isOwnClient} ${isSet(local, by)} -j KUBE-MARK-MASQ`,
        `-p ${protocol} ${isSet(local, by)} -j RETURN`,
        `-p ${protocol} ${isSet(all, by)} -j KUBE-MARK-MASQ`,
      ]),
    },
    {
      name: 'KUBE-SERVICES',
      lines: [
        ...(family === 'IPv4' ? ['-s 127.0.0.0/8 -j RETURN'] : []),
        `${isSet('LOAD-BALANCER')} -j KUBE-LOAD-BALANCER`,
        ...clusterIpRules(matches, settings),
        `${isSet('EXTERNAL-IP')} -j KUBE-MARK-MASQ`,
        `${isOwnClient} ${isSet('EXTERNAL-IP-LOCAL')} -j KUBE-MARK-MASQ`,
        // No rule of another program, for a host port say, is to take them.
        ...vipSetKinds.map(kind => `${isSet(kind)} -j ACCEPT`),
        '-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
      ],
    },
  ]
}

const clusterIpRules = (
  { isSet, fromPods }: Matches,
  { masqueradeAll }: KernelSettings,
): readonly string[] => {
  const all = `${isSet('CLUSTER-IP')} -j KUBE-MARK-MASQ`
  if (masqueradeAll) return [all]
  if (fromPods.length > 0)
    return [...fromPods.map(pods => `${pods} ${isSet('CLUSTER-IP')} -j ACCEPT`), all]
  // What the node sends to an address of its own has it as its source too.
  return [`${isSet('CLUSTER-IP', 'src,dst')} -j KUBE-MARK-MASQ`]
}

const chainNames: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  ruleTables('IPv4', plainSettings, false).map(({ name, chains }) => [
    name,
    new Set(chains.map(chain => chain.name)),
  ]),
)

/** Whether the ipvs mode has a chain of this name in this table. */
export const isIpvsChain = (table: string, chain: string): boolean =>
  chainNames.get(table)?.has(chain) === true

export const ipvsOwner = modeOwner(isIpvsChain)
