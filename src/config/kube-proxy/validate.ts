import { isModeName, modeNames } from '../../mode/mode.ts'
import { goMilliseconds } from '../../util/duration.ts'
import type { KubeProxyConfiguration } from './configuration.ts'
import { parseCidr } from '../../util/cidr.ts'
import { canonicalIp } from '../../util/ip.ts'
import { portRange, isDualStack, isNodePortWord } from '../types/addresses.ts'
import { BadValue, splitAtCommas } from '../types/basic.ts'
import { firstFew } from '../../util/printable.ts'

/** Faults of a configuration are reported in the words and paths of kube-proxy. */
const at = (path: string): string => `KubeProxyConfiguration.${path}`

/** `KubeProxyConfiguration.SyncPeriod: Invalid value: "-5s": must be greater than 0`. */
const invalid = (path: string, value: unknown, reason: string): string =>
  `${at(path)}: Invalid value: ${JSON.stringify(value)}: ${reason}`

/** For an entry of a list that is there already. */
const duplicate = (path: string, value: string): string =>
  `${at(path)}: Duplicate value: ${JSON.stringify(value)}`

/** For a value that is not one of a few. */
const unsupported = (path: string, value: string, right: readonly string[]): string =>
  `${at(path)}: Unsupported value: ${JSON.stringify(value)}: supported values: ${right
    .map(each => JSON.stringify(each))
    .join(', ')}`

/** All of them as one message, in brackets when there are several. */
export const together = (faults: readonly string[]): string =>
  faults.length === 1 ? (faults[0] ?? '') : `[${firstFew(faults, ', ')}]`

const faultIf = (
  wrong: boolean,
  path: string,
  value: unknown,
  reason: string,
): string[] => (wrong ? [invalid(path, value, reason)] : [])

const notBelowZero = (path: string, value: number): string[] =>
  faultIf(value < 0, path, value, 'must be greater than or equal to 0')

const spanNotBelowZero = (path: string, value: string): string[] =>
  faultIf(goMilliseconds(value) < 0, path, value, 'must be greater than or equal to 0')

const spanAboveZero = (path: string, value: string): string[] =>
  faultIf(!(goMilliseconds(value) > 0), path, value, 'must be greater than 0')

type Check = (configuration: KubeProxyConfiguration) => string[]

/** The paths are those of the section whose periods count: kube-proxy has them in common. */
const periods = (
  before: string,
  { syncPeriod, minSyncPeriod }: { syncPeriod: string; minSyncPeriod: string },
): string[] => [
  ...spanAboveZero(`${before}SyncPeriod`, syncPeriod),
  ...spanNotBelowZero(`${before}MinSyncPeriod`, minSyncPeriod),
  ...faultIf(
    goMilliseconds(minSyncPeriod) > goMilliseconds(syncPeriod),
    `${before}SyncPeriod`,
    minSyncPeriod,
    `must be greater than or equal to KubeProxyConfiguration.${before}MinSyncPeriod`,
  ),
]

const masqueradeBit = (path: string, bit: number): string[] =>
  faultIf(bit < 0 || bit > 31, path, bit, 'must be within the range [0, 31]')

const ipvs: Check = ({ ipvs: section }) => {
  const path = 'KubeProxyIPVSConfiguration'
  return [
    ...periods('', section),
    ...spanNotBelowZero(`${path}.TCPTimeout`, section.tcpTimeout),
    ...spanNotBelowZero(`${path}.TCPFinTimeout`, section.tcpFinTimeout),
    ...spanNotBelowZero(`${path}.UDPTimeout`, section.udpTimeout),
  ]
}

const nftables: Check = ({ nftables: section }) => [
  ...periods('', section),
  ...masqueradeBit('KubeProxyNFTablesConfiguration.MasqueradeBit', section.masqueradeBit),
]

/** Usher paces itself by the iptables section, whatever the mode. */
const sections: Check = configuration => {
  const { mode, iptables } = configuration
  const path = 'KubeProxyIPTablesConfiguration'
  const other = mode === 'ipvs' ? ipvs : mode === 'nftables' ? nftables : undefined
  return [
    ...masqueradeBit(`${path}.MasqueradeBit`, iptables.masqueradeBit),
    ...periods(other === undefined ? '' : `${path}.`, iptables),
    ...(other?.(configuration) ?? []),
  ]
}

const linux: Check = ({ conntrack, oomScoreAdj }) => {
  const path = 'KubeProxyLinuxConfiguration'
  const table = `${path}.KubeProxyConntrackConfiguration`
  return [
    ...notBelowZero(`${table}.MaxPerCore`, conntrack.maxPerCore),
    ...notBelowZero(`${table}.Min`, conntrack.min),
    ...spanNotBelowZero(
      `${table}.TCPEstablishedTimeout`,
      conntrack.tcpEstablishedTimeout,
    ),
    ...spanNotBelowZero(`${table}.TCPCloseWaitTimeout`, conntrack.tcpCloseWaitTimeout),
    ...spanNotBelowZero(`${table}.UDPTimeout`, conntrack.udpTimeout),
    ...spanNotBelowZero(`${table}.UDPStreamTimeout`, conntrack.udpStreamTimeout),
    ...faultIf(
      oomScoreAdj < -1000 || oomScoreAdj > 1000,
      `${path}.OOMScoreAdj`,
      oomScoreAdj,
      'must be within the range [-1000, 1000]',
    ),
  ]
}

const mode: Check = configuration =>
  faultIf(
    configuration.mode !== '' && !isModeName(configuration.mode),
    'Mode.ProxyMode',
    configuration.mode,
    `must be ${modeNames.join(', ')} or blank (blank means iptables, or userspace where that does not work)`,
  )

const localModes = [
  'ClusterCIDR',
  'NodeCIDR',
  'BridgeInterface',
  'InterfaceNamePrefix',
  '',
]

const notEmpty = (path: string, name: string): string[] =>
  faultIf(name === '', `DetectLocal.${path}`, name, 'must not be empty')

const detectLocal: Check = ({ detectLocalMode, detectLocal: names }) => {
  if (!localModes.includes(detectLocalMode))
    return [unsupported('DetectLocalMode', detectLocalMode, localModes)]
  if (detectLocalMode === 'BridgeInterface')
    return notEmpty('InterfaceName', names.bridgeInterface)
  if (detectLocalMode === 'InterfaceNamePrefix')
    return notEmpty('InterfacePrefix', names.interfaceNamePrefix)
  return []
}

const rest: Check = configuration => [
  ...spanAboveZero('ConfigSyncPeriod', configuration.configSyncPeriod),
  ...notBelowZero('ClientConnection.Burst', configuration.clientConnection.burst),
  // Below zero it would fire timers at once; kube-proxy had it for userspace mode only.
  ...['udpIdleTimeout' as const, 'udpTimeoutMilliseconds' as const].flatMap(field =>
    spanAboveZero('UDPIdleTimeout', configuration[field] ?? '1s'),
  ),
  ...faultIf(
    !/^(?:\d+\.\d+)?$/.test(configuration.showHiddenMetricsForVersion),
    'ShowHiddenMetricsForVersion',
    configuration.showHiddenMetricsForVersion,
    'must be empty or a version like 1.35',
  ),
]

const logging: Check = ({ logging: { format, flushFrequency, verbosity } }) => [
  ...faultIf(
    format !== 'text' && format !== 'json',
    'logging.format',
    format,
    'Unsupported log format',
  ),
  ...spanNotBelowZero('logging.flushFrequency', flushFrequency),
  ...notBelowZero('logging.verbosity', verbosity),
]

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

const blocks = (path: string, cidrs: readonly string[], reason: string): string[] =>
  cidrs.flatMap((cidr, index) =>
    faultIf(parseCidr(cidr) === undefined, `${path}[${index}]`, cidr, reason),
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
const addressFaults = (configuration: KubeProxyConfiguration): string[] => [
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

const checks: readonly Check[] = [
  sections,
  linux,
  mode,
  rest,
  addressFaults,
  detectLocal,
  logging,
]

/** Why a configuration can't be used, all reasons in one message; '' when it can. */
export const validate = (configuration: KubeProxyConfiguration): string => {
  const faults = checks.flatMap(check => check(configuration))
  return faults.length === 0 ? '' : `failed validate: ${together(faults)}`
}
