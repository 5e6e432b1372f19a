import { incompleteWarnings } from '../kube-proxy/incomplete.ts'
import { isGiven, leafAt, type Tree, valueAt } from '../kube-proxy/fields.ts'
import type { FieldPath } from '../kube-proxy/shape.ts'
import { acceptedBy } from '../typed.ts'
import { type Decision, isOldUdpTimeout } from './effective.ts'
import { flagsWithField, type Given } from './from-flags.ts'
import { ofUserspace, whyNoEffect } from './no-effect.ts'

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
      const why = whyNoEffect(row, mode)
      return why !== undefined && given.has(flag) ? [[`--${flag}`, why] as const] : []
    }),
  )

/** What is for the case that userspace has to take the place of the mode asked for. */
const onlyAfterFallBack = (given: Given, mode: string): string[] =>
  mode === '' || mode === 'userspace'
    ? []
    : withoutEffect(
        ofUserspace
          .filter(flag => given.has(flag))
          .map(
            flag => [`--${flag}`, `unless Usher falls back to userspace mode`] as const,
          ),
      )

const isDefault = (file: Tree, path: FieldPath): boolean =>
  JSON.stringify(valueAt(file, path)) === JSON.stringify(leafAt(path).default)

/** Files are full of defaults; what was chosen is what somebody may miss. */
const fieldsWithoutEffect = (file: Tree, mode: string): string[] =>
  withoutEffect(
    flagsWithField.flatMap(({ row, field }) => {
      const why = whyNoEffect(row, mode)
      return why !== undefined && isGiven(file, field) && !isDefault(file, field)
        ? [[field, why] as const]
        : []
    }),
  )

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

const laterMode = (asked: string): string[] =>
  asked === 'nftables'
    ? [
        'proxy mode "nftables" is not there yet: Usher takes iptables in its place, or userspace where that does not work',
      ]
    : []

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

const gates = ({ featureGates = {} }: Decision['configuration']): string[] => {
  const names = Object.keys(featureGates)
  return names.length === 0
    ? []
    : [`Usher has no feature gates: ${listed(names, 'changes', 'change')} nothing`]
}

const unusedSource = ({ options, configuration }: Decision): string[] =>
  options.manifests.length > 0 && configuration.clientConnection.kubeconfig !== ''
    ? ['clientConnection.kubeconfig is not used: Services come from the manifests given']
    : []

const legacy = (decision: Decision, mode: string): string[] => [
  ...(isOldUdpTimeout(decision)
    ? [
        "udpIdleTimeout 250ms is kube-proxy's old default, under which slow replies were lost: Usher keeps its own; give --udp-timeout 250ms to have it",
      ]
    : []),
  ...(decision.configuration.conntrack.max === undefined || mode !== 'userspace'
    ? []
    : ['conntrack.max has no effect in userspace mode']),
]

/**
 * What somebody should know of flags and file, in words, each thing once. `mode`: the one
 * that is asked for; '' when none is.
 */
export const warningsOf = (decision: Decision, mode: string): string[] => {
  const { given, file, configuration } = decision
  return [
    ...flagsWithoutEffect(given, mode),
    ...onlyAfterFallBack(given, mode),
    ...(file === undefined
      ? deprecated(given)
      : [...overruled(given), ...fieldsWithoutEffect(file, mode)]),
    ...laterMode(configuration.mode),
    ...localMode(configuration, mode),
    ...gates(configuration),
    ...unusedSource(decision),
    ...legacy(decision, mode),
    ...incompleteWarnings(configuration),
  ]
}
