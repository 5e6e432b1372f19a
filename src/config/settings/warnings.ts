import { incompleteWarnings } from '../kube-proxy/incomplete.ts'
import { isGiven, leafAt, type Tree, valueAt } from '../kube-proxy/fields.ts'
import type { FieldPath } from '../kube-proxy/shape.ts'
import { acceptedBy } from '../typed.ts'
import { type Decision, isOldUdpTimeout } from './effective.ts'
import { flagsWithField, type Given } from './from-flags.ts'

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

const flagsWithoutEffect = (given: Given): string[] =>
  withoutEffect(
    acceptedBy('run').flatMap(([flag, { noEffect }]) =>
      noEffect !== undefined && given.has(flag) ? [[`--${flag}`, noEffect] as const] : [],
    ),
  )

const isDefault = (file: Tree, path: FieldPath): boolean =>
  JSON.stringify(valueAt(file, path)) === JSON.stringify(leafAt(path).default)

/** Files are full of defaults; what was chosen is what somebody may miss. */
const fieldsWithoutEffect = (file: Tree): string[] =>
  withoutEffect(
    flagsWithField.flatMap(({ row: { noEffect }, field }) =>
      noEffect !== undefined && isGiven(file, field) && !isDefault(file, field)
        ? [[field, noEffect] as const]
        : [],
    ),
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

const mode = (asked: string): string[] =>
  asked === '' || asked === 'userspace'
    ? []
    : [
        `proxy mode ${JSON.stringify(asked)} is not there yet: Usher runs userspace mode in its place; leave the mode empty, or give userspace, to say that this is meant`,
      ]

const localMode = ({ detectLocalMode }: Decision['configuration']): string[] =>
  detectLocalMode === 'BridgeInterface' || detectLocalMode === 'InterfaceNamePrefix'
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

const legacy = (decision: Decision): string[] => [
  ...(isOldUdpTimeout(decision)
    ? [
        "udpIdleTimeout 250ms is kube-proxy's old default, under which slow replies were lost: Usher keeps its own; give --udp-timeout 250ms to have it",
      ]
    : []),
  ...(decision.configuration.conntrack.max === undefined
    ? []
    : ['conntrack.max has no effect in userspace mode']),
]

/** What somebody should know of flags and file, in words, each thing once. */
export const warningsOf = (decision: Decision): string[] => {
  const { given, file, configuration } = decision
  return [
    ...flagsWithoutEffect(given),
    ...(file === undefined
      ? deprecated(given)
      : [...overruled(given), ...fieldsWithoutEffect(file)]),
    ...mode(configuration.mode),
    ...localMode(configuration),
    ...gates(configuration),
    ...unusedSource(decision),
    ...legacy(decision),
    ...incompleteWarnings(configuration),
  ]
}
