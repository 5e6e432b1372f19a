import { ipFamilies, type IpFamily } from '../../util/ip.ts'

/** Those of kube-proxy's ipvs mode, and two of Usher's; without `KUBE-`. */
const types = {
  'LOOP-BACK': 'hash:ip,port,ip',
  'LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'LOAD-BALANCER-SOURCE-IP': 'hash:ip,port,ip',
  'LOAD-BALANCER-FW': 'hash:ip,port',
  'CLUSTER-IP-DROP': 'hash:ip,port',
  'EXTERNAL-DROP': 'hash:ip,port',
  'LOAD-BALANCER-LOCAL': 'hash:ip,port',
  'NODE-PORT-LOCAL-TCP': 'bitmap:port',
  'NODE-PORT-LOCAL-UDP': 'bitmap:port',
  // A bitmap knows no ports of SCTP.
  'NODE-PORT-LOCAL-SCTP-HASH': 'hash:ip,port',
  'EXTERNAL-IP-LOCAL': 'hash:ip,port',
  'CLUSTER-IP': 'hash:ip,port',
  'EXTERNAL-IP': 'hash:ip,port',
  'LOAD-BALANCER': 'hash:ip,port',
  'NODE-PORT-TCP': 'bitmap:port',
  'NODE-PORT-UDP': 'bitmap:port',
  'NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'IPVS-IPS': 'hash:ip',
} as const

export type SetKind = keyof typeof types
export type SetType = (typeof types)[SetKind]

/**
 * In the order in which entries are added, and in the opposite of which they go: the clients that may
 * are known before others are kept out, and what is special to a VIP before the VIP itself.
 */
export const setKinds = Object.keys(types) as readonly SetKind[]

/** Those that name what clients dial, each VIP in one of them; node ports apart. */
export const vipSetKinds: readonly SetKind[] = [
  'CLUSTER-IP',
  'LOAD-BALANCER',
  'EXTERNAL-IP',
  'EXTERNAL-IP-LOCAL',
]

/** The kernel's limit, to which kube-proxy cuts its names too. */
const longest = 31

const nameOf = (family: IpFamily, kind: string): string =>
  `KUBE-${family === 'IPv6' ? '6-' : ''}${kind}`.slice(0, longest)

export const setName = (family: IpFamily, kind: SetKind): string => nameOf(family, kind)

/** The unused name under which a set of the same type is filled. */
export const spareName = (family: IpFamily): string => nameOf(family, 'IPVS-SPARE')

export const setType = (kind: SetKind): SetType => types[kind]

/**
 * How many entries a set may have. kube-proxy's sets take 65536, the tool's default, and
 * an endpoint more than that stops all its syncs. Memory is taken only as entries come.
 */
export const maxEntries = 1_048_576

/** The words with which a set is made, as `ipset save` prints them too. */
export const creation = (family: IpFamily, type: SetType): string =>
  type === 'bitmap:port'
    ? 'bitmap:port range 0-65535'
    : `${type} family ${family === 'IPv4' ? 'inet' : 'inet6'} hashsize 1024 maxelem ${maxEntries}`

/** Those that kube-proxy had in other versions. */
const otherVersions = ['LOAD-BALANCER-MASQ', 'NODE-PORT-SCTP', 'NODE-PORT-LOCAL-SCTP']

const allNames: ReadonlySet<string> = new Set(
  ipFamilies.flatMap(family => {
    const kinds: readonly string[] = ['IPVS-SPARE', ...setKinds, ...otherVersions]
    return kinds.map(kind => nameOf(family, kind))
  }),
)

/**
 * Whether a set is kube-proxy's, or Usher's, or of a probe of Usher's that was killed. By its
 * whole name: kube-router has sets that begin with KUBE- too.
 */
export const isKubeProxySet = (name: string): boolean =>
  allNames.has(name) || /^USHER-PROBE-[\da-f]{8}-\d$/.test(name)
