import { parseCidr } from '../../util/cidr.ts'
import { canonicalIp } from '../../util/ip.ts'
import { portRange, isDualStack, isNodePortWord } from '../types/addresses.ts'
import { BadValue, splitAtCommas } from '../types/basic.ts'
import type { KubeProxyConfiguration } from './configuration.ts'
import { duplicate, faultIf, invalid } from './faults.ts'

const bindAddress = (given: string): string[] =>
  faultIf(
    canonicalIp(given) === undefined,
    'NodeIPOverride[0]',
    given,
    'must be a valid IP (e.g. 10.100.0.0 or fde4:8dba:82e1::)',
  )

/** `off`, and port 0 for one that the system chooses, are Usher's own. */
const hostPort = (path: string, given: string): string[] => {
  if (given === 'off') return []
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*)):([^:]*)$/.exec(given)
  if (match === null) return [invalid(path, given, 'must be IP:port')]
  const [, v6, v4, port = ''] = match
  const host = v6 ?? v4 ?? ''
  const isPort = /^\d{1,5}$/.test(port) && Number(port) <= 65_535
  return [
    ...faultIf(canonicalIp(host) === undefined, path, host, 'must be a valid IP'),
    ...faultIf(!isPort, path, port, 'must be a valid port'),
  ]
}

const blocks = (path: string, cidrs: readonly string[], why: string): string[] =>
  cidrs.flatMap((cidr, index) =>
    faultIf(parseCidr(cidr) === undefined, `${path}[${index}]`, cidr, why),
  )

const clusterCidr = (text: string): string[] => {
  const path = 'DetectLocal.ClusterCIDRs'
  const cidrs = splitAtCommas(text)
  const bad = blocks(
    path,
    cidrs,
    'must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)',
  )
  if (cidrs.length < 2 || (cidrs.length === 2 && (bad.length > 0 || isDualStack(cidrs))))
    return bad
  return [
    invalid(
      path,
      cidrs,
      'must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]',
    ),
  ]
}

/** As of kube-proxy 1.37: words beside CIDRs, each word once. */
const nodePorts = (given: readonly string[] | null): string[] =>
  (given ?? []).flatMap((each, index, all) => {
    const path = `NodePortAddresses[${index}]`
    if (isNodePortWord(each))
      return all.indexOf(each) < index ? [duplicate(path, each)] : []
    return faultIf(
      parseCidr(each) === undefined,
      path,
      each,
      "must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'",
    )
  })

const ports = (given: string): string[] => {
  try {
    portRange.read(given)
    return []
  } catch (error) {
    if (!(error instanceof BadValue)) throw error
    return [invalid('PortRange', given, 'must be a valid port range (e.g. 300-2000)')]
  }
}

/** What is wrong with addresses, blocks of them and ports. */
export const addressFaults = (configuration: KubeProxyConfiguration): string[] => [
  ...bindAddress(configuration.bindAddress),
  ...hostPort('HealthzBindAddress', configuration.healthzBindAddress),
  ...hostPort('MetricsBindAddress', configuration.metricsBindAddress),
  ...clusterCidr(configuration.clusterCIDR),
  ...ports(configuration.portRange),
  ...nodePorts(configuration.nodePortAddresses),
  ...(configuration.mode === 'ipvs'
    ? blocks(
        'KubeProxyIPVSConfiguration.ExcludeCidrs',
        configuration.ipvs.excludeCIDRs ?? [],
        'must be a valid CIDR',
      )
    : []),
]
