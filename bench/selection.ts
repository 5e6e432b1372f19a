import { UsageError } from '../src/config/usage-error.ts'
import { groups, type Scenario } from './scenarios/scenario.ts'
import type { Target } from './targets/target.ts'

/** What was asked for, as the flags of `usher bench` say it. */
export interface Wishes {
  readonly quick: boolean
  /** Lists of names, as often as the flag was given. */
  readonly only: readonly (readonly string[])[]
  readonly targets: readonly (readonly string[])[]
}

/** What `--quick` compares: one capture stands for all, the floor is left out. */
const quickTargets = [
  'direct',
  'usher',
  'usher-linux',
  'usher-portable',
  'usher-nftables',
  'usher-mode-nftables',
  'usher-mode-iptables',
  'haproxy',
  'haproxy-copy',
  'nginx',
]

/**
 * The scenarios to measure, in the order of `all`. Throws UsageError for a name that is
 * neither a scenario nor a group.
 */
export const chooseScenarios = (
  { only, quick }: Wishes,
  all: readonly Scenario[],
): readonly Scenario[] => {
  const wanted = new Set(only.flat())
  const known = [...Object.keys(groups), ...all.map(({ name }) => name)]
  refuseStrangers('--only', wanted, known)
  if (wanted.size === 0) return quick ? all.filter(scenario => scenario.quick) : all
  return all.filter(({ name, group }) => wanted.has(name) || wanted.has(group))
}

/**
 * The targets to measure, in the order of `all`; those that were `given` as addresses or
 * commands always. Throws UsageError for a name that none has.
 */
export const chooseTargets = (
  { targets, quick }: Wishes,
  all: readonly Target[],
  given: readonly Target[],
): readonly Target[] => {
  const wanted = new Set(targets.flat())
  const known = [...all, ...given].map(({ name }) => name)
  const twice = known.find((name, i) => known.indexOf(name) !== i)
  if (twice !== undefined)
    throw new UsageError(
      `--target: ${twice} is there already; give another name`,
      'bench',
    )
  refuseStrangers('--targets', wanted, known)
  if (wanted.size === 0 && quick) for (const name of quickTargets) wanted.add(name)
  const chosen = wanted.size === 0 ? all : all.filter(({ name }) => wanted.has(name))
  return [...chosen, ...given]
}

/** Whether a target tells something in that scenario that its siblings don't. */
export const isMainlyFor = (
  target: Pick<Target, 'name' | 'mainlyFor'>,
  { name, group, targets }: Pick<Scenario, 'name' | 'group' | 'targets'>,
): boolean => {
  if (targets !== undefined) return targets.includes(target.name)
  const { mainlyFor } = target
  return mainlyFor === undefined || mainlyFor.includes(name) || mainlyFor.includes(group)
}

/** Targets that were asked for by name take part in everything that they can do. */
export const takingPart = (
  { targets }: Pick<Wishes, 'targets'>,
  chosen: readonly Target[],
  scenarios: readonly Scenario[],
): readonly Target[] =>
  targets.length > 0
    ? chosen.map(inEverything)
    : chosen.filter(target => scenarios.some(scenario => isMainlyFor(target, scenario)))

const inEverything = (target: Target): Target => {
  const { mainlyFor, ...others } = target
  return mainlyFor === undefined ? target : others
}

const refuseStrangers = (
  flag: string,
  wanted: ReadonlySet<string>,
  known: readonly string[],
): void => {
  for (const name of wanted)
    if (!known.includes(name))
      throw new UsageError(
        `${flag}: ${JSON.stringify(name)} is none of them; give ${known.join(', ')}`,
        'bench',
      )
}
