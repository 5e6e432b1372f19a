/** Those of kube-proxy's ipvs mode, of all its versions, without `KUBE-`. */
const names = [
  'LOOP-BACK',
  'CLUSTER-IP',
  'EXTERNAL-IP',
  'EXTERNAL-IP-LOCAL',
  'LOAD-BALANCER',
  'LOAD-BALANCER-FW',
  'LOAD-BALANCER-LOCAL',
  'LOAD-BALANCER-MASQ',
  'LOAD-BALANCER-SOURCE-CIDR',
  'LOAD-BALANCER-SOURCE-IP',
  'NODE-PORT-TCP',
  'NODE-PORT-LOCAL-TCP',
  'NODE-PORT-UDP',
  'NODE-PORT-LOCAL-UDP',
  'NODE-PORT-SCTP',
  'NODE-PORT-LOCAL-SCTP',
  'NODE-PORT-SCTP-HASH',
  'NODE-PORT-LOCAL-SCTP-HASH',
  'HEALTH-CHECK-NODE-PORT',
  'IPVS-IPS',
]

/** The kernel's limit; kube-proxy cuts the names of its IPv6 sets to it. */
const longest = 31

const all: ReadonlySet<string> = new Set(
  names.flatMap(name => [`KUBE-${name}`, `KUBE-6-${name}`.slice(0, longest)]),
)

/**
 * Whether a set is kube-proxy's. By its whole name: kube-router has sets that begin with
 * KUBE- too.
 */
export const isKubeProxySet = (name: string): boolean => all.has(name)
