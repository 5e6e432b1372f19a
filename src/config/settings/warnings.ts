import { parseCidr } from '../../util/cidr.ts'
import { familyOf, isWildcard, splitHostPort } from '../../util/ip.ts'
import {
  type KubeProxyConfiguration,
  valueAt,
  withDefaults,
} from '../kube-proxy/configuration.ts'
import { acceptedBy } from '../options.ts'
import { splitAtCommas } from '../types/basic.ts'
import {
  type Decision,
  externalIpsGate,
  isOldUdpTimeout,
  loopbackGate,
} from './effective.ts'
import type { Given } from '../tokens.ts'
import { flagsWithField } from './from-flags.ts'
import { isForFallBack, ofUserspace, noEffectReason } from './modes.ts'

/** `--a has`, `--a and --b have`. */
const listed = (names: readonly string[], one: string, many: string): string => {
  const last = names.at(-1) ?? ''
  if (names.length === 1) return `${last} ${one}`
  return `${names.slice(0, -1).join(', ')} and ${last} ${many}`
}

/** One line for each reason, with the names it goes for. */
const withoutEffect = (
  entries: readonly (readonly [name: string, reason: string])[],
): string[] => {
  const reasons = new Map<string, string[]>()
  for (const [name, reason] of entries)
    reasons.set(reason, [...(reasons.get(reason) ?? []), name])
  return [...reasons].map(
    ([reason, names]) => `${listed(names, 'has', 'have')} no effect ${reason}`,
  )
}

const flagsWithoutEffect = (given: Given, mode: string): string[] =>
  withoutEffect(
    acceptedBy('run').flatMap(([flag, row]) => {
      const reason = noEffectReason(row, mode)
      return reason !== undefined && given.has(flag)
        ? [[`--${flag}`, reason] as const]
        : []
    }),
  )

/** What is for the case that userspace has to take the place of the mode asked for. */
const onlyAfterFallBack = (given: Given, mode: string): string[] =>
  withoutEffect(
    ofUserspace
      .filter(flag => given.has(flag) && isForFallBack(flag, mode))
      .map(flag => [`--${flag}`, `unless Usher falls back to userspace mode`] as const),
  )

/** Files are full of defaults; what was chosen is what a user may miss. */
const fieldsWithoutEffect = (
  { tree, configuration }: Decision,
  mode: string,
): string[] => {
  const defaults = withDefaults({})
  return withoutEffect(
    flagsWithField.flatMap(({ row, field }) => {
      const reason = noEffectReason(row, mode)
      if (reason === undefined || valueAt(tree, field) === undefined) return []
      const value = JSON.stringify(valueAt(configuration, field))
      const isDefault = value === JSON.stringify(valueAt(defaults, field))
      return isDefault ? [] : [[field, reason] as const]
    }),
  )
}

/** Flags that --config overrules. */
const overruled = (given: Given): string[] => {
  const flags = acceptedBy('run').filter(
    ([flag, row]) =>
      given.has(flag) &&
      row.noEffect === undefined &&
      (flag === 'healthz-port' ||
        flag === 'metrics-port' ||
        (row.field !== undefined && row.beatsFile !== true)),
  )
  const names = flags.map(([flag]) => `--${flag}`)
  return names.length === 0
    ? []
    : [`${listed(names, 'is', 'are')} ignored, because --config is given`]
}

const deprecated = (given: Given): string[] =>
  (['healthz', 'metrics'] as const).flatMap(name =>
    given.has(`${name}-port`)
      ? [`--${name}-port is deprecated; give --${name}-bind-address instead`]
      : [],
  )

const localMode = (
  { detectLocalMode }: Decision['configuration'],
  mode: string,
): string[] =>
  mode === 'userspace' &&
  (detectLocalMode === 'BridgeInterface' || detectLocalMode === 'InterfaceNamePrefix')
    ? [
        `detectLocalMode ${detectLocalMode} has no effect in userspace mode, where a client's interface is not known: pods of this node count as outside clients; give ClusterCIDR or NodeCIDR`,
      ]
    : []

/** The bpffs is needed without it, too: what was left there is removed. */
const connectTimeOff = ({ given, options }: Decision): string[] =>
  (['connect-time-cgroup', 'connect-time-exempt'] as const)
    .filter(flag => options.connectTime === 'off' && given.has(flag))
    .map(flag => `--${flag} has no effect without --connect-time`)

const gates = (
  { featureGates = {} }: Decision['configuration'],
  mode: string,
): string[] => {
  const names = Object.keys(featureGates).filter(
    name => name !== externalIpsGate && (name !== loopbackGate || mode !== 'nftables'),
  )
  return names.length === 0 ? [] : [`feature gates without effect: ${names.join(', ')}`]
}

const unusedSource = ({ options, configuration }: Decision): string[] =>
  options.manifests.length > 0 && configuration.clientConnection.kubeconfig !== ''
    ? ['clientConnection.kubeconfig is not used: Services come from the manifests given']
    : []

const oldUdpTimeout = (decision: Decision): string[] =>
  isOldUdpTimeout(decision)
    ? [
        "udpIdleTimeout 250ms is kube-proxy's old default, under which slow replies were lost: Usher keeps its own; give --udp-timeout 250ms to have it",
      ]
    : []

const familyOfBind = (hostPort: string): string | undefined => {
  const host = splitHostPort(hostPort, 0)?.host ?? ''
  return isWildcard(host) ? undefined : familyOf(host)
}

/** Fields whose addresses are of another family than `bindAddress`, when that is one. */
const otherFamily = (configuration: KubeProxyConfiguration): string[] => {
  const { bindAddress } = configuration
  const own = familyOf(bindAddress)
  if (isWildcard(bindAddress) || own === undefined) return []
  const families = (path: string, found: readonly (string | undefined)[]): string[] => {
    const known = found.filter(family => family !== undefined)
    return known.length === 0 || known.includes(own)
      ? []
      : [`bindAddress is ${own} but ${path} has ${known[0]} only`]
  }
  const cidrs = splitAtCommas(configuration.clusterCIDR)
  return [
    ...families(
      'clusterCIDR',
      cidrs.map(cidr => parseCidr(cidr)?.family),
    ),
    ...families('healthzBindAddress', [familyOfBind(configuration.healthzBindAddress)]),
    ...families('metricsBindAddress', [familyOfBind(configuration.metricsBindAddress)]),
  ]
}

/** What is probably not meant, though it can be used. */
const incompleteWarnings = (configuration: KubeProxyConfiguration): string[] => {
  const { clusterCIDR, detectLocalMode } = configuration
  const found = otherFamily(configuration)
  if (detectLocalMode === 'ClusterCIDR' && clusterCIDR === '')
    found.push('detectLocalMode is ClusterCIDR but clusterCIDR is empty')
  return found.map(
    what => `Kube-proxy configuration may be incomplete or incorrect: ${what}`,
  )
}

/**
 * What a user should know of flags and file, each thing once. `mode`: the one
 * that is asked for; '' when none is.
 */
export const warningsOf = (decision: Decision, mode: string): string[] => {
  const { given, hasFile, configuration } = decision
  return [
    ...flagsWithoutEffect(given, mode),
    ...onlyAfterFallBack(given, mode),
    ...(hasFile
      ? [...overruled(given), ...fieldsWithoutEffect(decision, mode)]
      : deprecated(given)),
    ...localMode(configuration, mode),
    ...connectTimeOff(decision),
    ...gates(configuration, mode),
    ...unusedSource(decision),
    ...oldUdpTimeout(decision),
    ...incompleteWarnings(configuration),
  ]
}
