import type { ModeName, Periods, KernelOptions } from '../../mode/mode.ts'
import { parseCidr } from '../../util/cidr.ts'
import { isLoopback } from '../../util/ip.ts'
import { goMilliseconds } from '../../util/duration.ts'
import {
  type KubeProxyConfiguration,
  type Tree,
  valueAt,
} from '../kube-proxy/configuration.ts'
import { camelCase, type OptionsOf } from '../options.ts'
import { named } from '../parse.ts'
import { duration } from '../types/quantities.ts'
import type { Given } from '../tokens.ts'
import { flagsWithField } from './from-flags.ts'
import { noEffectReason } from './modes.ts'

/** Everything that decides what `usher run` does. */
export interface Decision {
  readonly given: Given
  /** What the flags alone amount to. */
  readonly options: OptionsOf<'run'>
  readonly hasFile: boolean
  /** What the file sets, or without --config the flags. */
  readonly tree: Tree
  /** The same with every default. */
  readonly configuration: KubeProxyConfiguration
}

/** What kube-proxy had for --udp-timeout, and wrote into files of its own. */
const oldUdpTimeout = '250ms'

/** How long UDP clients are remembered by the file; undefined when it does not say. */
const udpTimeoutOf = (configuration: KubeProxyConfiguration): string | undefined =>
  configuration.udpIdleTimeout ?? configuration.udpTimeoutMilliseconds

/** True when the file has kube-proxy's old default, which cut off slow replies. */
export const isOldUdpTimeout = ({ given, configuration }: Decision): boolean =>
  !given.has('udp-timeout') && udpTimeoutOf(configuration) === oldUdpTimeout

const udpTimeout = (decision: Decision): number => {
  const { given, options, configuration } = decision
  const text = udpTimeoutOf(configuration)
  if (given.has('udp-timeout') || text === undefined || text === oldUdpTimeout)
    return options.udpTimeout
  return named('run', 'udpIdleTimeout', () => duration('above zero').read(text))
}

/** The gate of kube-proxy 1.37 (KEP-6032) for node ports on loopback in nftables mode. */
export const loopbackGate = 'KubeProxyNFTablesLocalhostNodePorts'

/** The gate of kube-proxy 1.37 (KEP-5707) for what is on by default. */
export const externalIpsGate = 'AllowServiceExternalIPs'

/** As kube-proxy, which serves them only where nodePortAddresses names loopback, besides `all`. */
const servesLoopbackNodePorts = ({ given, options, configuration }: Decision): boolean =>
  given.has('nftables-localhost-nodeports')
    ? options.nftablesLocalhostNodeports
    : configuration.featureGates?.[loopbackGate] === true &&
      (configuration.nodePortAddresses ?? []).some(
        text =>
          text === 'localhost' || isLoopback(parseCidr(text)?.text.split('/')[0] ?? ''),
      )

const levelOf = (verbosity: number): 'info' | 'debug' | 'trace' =>
  verbosity >= 6 ? 'trace' : verbosity >= 4 ? 'debug' : 'info'

const logging = ({
  given,
  options,
  tree,
  configuration,
}: Decision): Pick<OptionsOf<'run'>, 'logLevel' | 'logFormat'> => {
  const { verbosity, format } = configuration.logging
  const isFormatSet = valueAt(tree, 'logging.format') !== undefined
  const asked = format === 'json' ? 'json' : 'pretty'
  return {
    logLevel: given.has('log-level') ? options.logLevel : levelOf(verbosity),
    logFormat: given.has('log-format') || !isFormatSet ? options.logFormat : asked,
  }
}

/**
 * The options that `usher run` goes by: a field of the configuration decides over the
 * default of its flag. Throws UsageError for values that kube-proxy could do something
 * with and Usher can't, like a period of years.
 */
export const effectiveOptions = (decision: Decision): OptionsOf<'run'> => {
  const { given, hasFile, options, configuration } = decision
  const values: Record<string, unknown> = { ...options }
  for (const { flag, row, field } of flagsWithField) {
    // kube-proxy does not look at the sections of other modes either.
    if (noEffectReason(row, configuration.mode) !== undefined) continue
    const value = valueAt(configuration, field) ?? row.type.join?.([])
    values[camelCase(flag)] = named('run', hasFile ? field : `--${flag}`, () =>
      row.type.read(value),
    )
  }
  const fromFields = values as OptionsOf<'run'>
  return {
    ...fromFields,
    // Of kernel modes the parts that are given may not fit; see there.
    ...periods(decision, fromFields).userspace,
    ...logging(decision),
    udpTimeout: udpTimeout(decision),
    nftablesLocalhostNodeports: servesLoopbackNodePorts(decision),
    externalIps: given.has('external-ips')
      ? fromFields.externalIps
      : configuration.featureGates?.[externalIpsGate] !== false,
  }
}

/**
 * How often each mode syncs. --sync-period and --min-sync-period hold for all of them; else
 * each kernel mode has its own section, as kube-proxy has it, and userspace goes by that of
 * iptables. The 0s that ipvs has by default is nothing that was asked for.
 */
export const periods = (
  decision: Decision,
  effective: OptionsOf<'run'>,
): Readonly<Record<ModeName, Periods>> => {
  const { given, options, configuration } = decision
  const { nftables } = configuration
  const own = (section: Periods): Periods => {
    const { syncPeriod } = given.has('sync-period') ? options : section
    const { minSyncPeriod } = given.has('min-sync-period') ? options : section
    // A default of one part must not be at odds with the other part that is given.
    return { syncPeriod, minSyncPeriod: Math.min(syncPeriod, minSyncPeriod) }
  }
  const iptables = own({
    syncPeriod: effective.iptablesSyncPeriod,
    minSyncPeriod: effective.iptablesMinSyncPeriod,
  })
  return {
    nftables: own({
      syncPeriod: goMilliseconds(nftables.syncPeriod),
      minSyncPeriod: goMilliseconds(nftables.minSyncPeriod),
    }),
    iptables,
    ipvs: own({
      syncPeriod: effective.ipvsSyncPeriod,
      minSyncPeriod: effective.ipvsMinSyncPeriod || options.minSyncPeriod,
    }),
    userspace: iptables,
  }
}

/** What the kernel modes go by. */
export const kernelOptions = (
  configuration: KubeProxyConfiguration,
  {
    conntrackMax,
    nftablesLocalhostNodeports,
    nftablesFlowtableDevices,
  }: Pick<
    OptionsOf<'run'>,
    'conntrackMax' | 'nftablesLocalhostNodeports' | 'nftablesFlowtableDevices'
  >,
): KernelOptions => {
  const { iptables, nftables, conntrack, ipvs } = configuration
  return {
    masqueradeAll: iptables.masqueradeAll,
    masqueradeBit: iptables.masqueradeBit,
    nftables: {
      // --masquerade-all is for all modes.
      masqueradeAll: nftables.masqueradeAll || iptables.masqueradeAll,
      masqueradeBit: nftables.masqueradeBit,
      localhostNodePorts: nftablesLocalhostNodeports,
      flowtableDevices: nftablesFlowtableDevices,
    },
    localhostNodePorts: iptables.localhostNodePorts,
    localPods: localPods(configuration),
    conntrack: {
      maxPerCore: conntrack.maxPerCore,
      min: conntrack.min,
      // That of the flag is of kube-proxy before 1.17; 0 for none.
      max: conntrack.max ?? conntrackMax,
      tcpEstablishedMs: goMilliseconds(conntrack.tcpEstablishedTimeout),
      tcpCloseWaitMs: goMilliseconds(conntrack.tcpCloseWaitTimeout),
      tcpBeLiberal: conntrack.tcpBeLiberal,
      udpMs: goMilliseconds(conntrack.udpTimeout),
      udpStreamMs: goMilliseconds(conntrack.udpStreamTimeout),
    },
    ipvs: {
      scheduler: ipvs.scheduler,
      excludeCidrs: (ipvs.excludeCIDRs ?? []).flatMap(
        text => parseCidr(text)?.text ?? [],
      ),
      strictArp: ipvs.strictARP,
      tcpTimeoutMs: goMilliseconds(ipvs.tcpTimeout),
      tcpFinTimeoutMs: goMilliseconds(ipvs.tcpFinTimeout),
      udpTimeoutMs: goMilliseconds(ipvs.udpTimeout),
    },
  }
}

const localPods = ({
  detectLocalMode,
  detectLocal,
}: KubeProxyConfiguration): KernelOptions['localPods'] => {
  if (detectLocalMode === 'BridgeInterface')
    return { by: 'bridge', name: detectLocal.bridgeInterface }
  if (detectLocalMode === 'InterfaceNamePrefix')
    return { by: 'interface prefix', prefix: detectLocal.interfaceNamePrefix }
  return { by: 'cidrs' }
}
