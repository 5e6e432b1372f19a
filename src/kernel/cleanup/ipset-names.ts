/** Those of the ipvs mode, kube-proxy's of all its versions, without `KUBE-`. */
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
  // Usher's own.
  'CLUSTER-IP-DROP',
  'EXTERNAL-DROP',
  'IPVS-SPARE',
]

/** The kernel's limit; kube-proxy cuts the names of its IPv6 sets to it. */
const longest = 31

const all: ReadonlySet<string> = new Set(
  names.flatMap(name => [`KUBE-${name}`, `KUBE-6-${name}`.slice(0, longest)]),
)

/** What a probe of Usher's leaves when it is killed. */
const ofProbe = /^USHER-PROBE-[\da-f]{8}-\d$/

/**
 * Whether a set is kube-proxy's, or Usher's. By its whole name: kube-router has sets that
 * begin with KUBE- too.
 */
export const isKubeProxySet = (name: string): boolean =>
  all.has(name) || ofProbe.test(name)
