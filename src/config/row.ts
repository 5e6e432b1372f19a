import type { ModeName } from '../mode/mode.ts'
import type { Command } from './commands.ts'
import { defaultTextOf, type FieldPath } from './kube-proxy/configuration.ts'
import type { OptionType } from './types/basic.ts'

export type Group =
  | 'What'
  | 'Kubernetes API'
  | 'Listening'
  | 'Connect time'
  | 'Relay'
  | 'TCP'
  | 'UDP'
  | 'Timing and limits'
  | 'Pod lifecycle'
  | 'Upgrade'
  | 'Measurement'
  | 'Results'
  | 'Log'
  | 'kube-proxy compatibility'

/** One flag: everything that parsing, help and docs/flags.md say of it comes from here. */
export interface Row {
  readonly commands: readonly Command[]
  readonly group: Group
  /** Its name, where the row can't stand under it: other commands have another flag of that name. */
  readonly flag?: string
  readonly type: OptionType<unknown>
  /**
   * What a user would type to get the default. Left out where `field` has it, where a
   * switch is off, and where it is empty.
   */
  readonly default?: string
  /** Other defaults for some commands. */
  readonly defaultFor?: Partial<Readonly<Record<Command, string>>>
  /** A variable of the environment that has its value where it is not given. */
  readonly env?: string
  /** A flag with which that variable does not count. */
  readonly envUnless?: string
  /** What to show in place of a default that is empty. */
  readonly defaultText?: string
  /** Arguments without a flag are further values of this list. */
  readonly positional?: true
  /** A single letter with one dash that means the same. */
  readonly short?: string
  /** What it sets in KubeProxyConfiguration; with --config the file decides instead. */
  readonly field?: FieldPath
  /** The flag decides even with --config. */
  readonly beatsFile?: true
  /**
   * For a flag that is taken only because kube-proxy has it: how `has no effect` goes on,
   * as in `in userspace mode`. Its value is checked and then dropped.
   */
  readonly noEffect?: string
  /** The modes in which it does something; undefined: all, or it has to do with none. */
  readonly modes?: readonly ModeName[]
  readonly help: string
  /** What it means to some commands in place of that. */
  readonly helpFor?: Partial<Readonly<Record<Command, string>>>
}

type InGroup<R, C> = {
  readonly [F in keyof R]: Omit<
    { readonly group: Group; readonly commands: C },
    keyof R[F]
  > &
    R[F]
}

type RowInGroup = Omit<Row, 'group' | 'commands'> & Partial<Pick<Row, 'commands'>>

/** Rows that stand under one heading; `commands` take those that do not name their own. */
export const group = <
  const C extends readonly Command[],
  const R extends Readonly<Record<string, RowInGroup>>,
>(
  name: Group,
  commands: C,
  rows: R,
): InGroup<R, C> => {
  const all: Readonly<Record<string, unknown>> = Object.fromEntries(
    Object.entries(rows).map(([flag, row]) => [flag, { group: name, commands, ...row }]),
  )
  return all as InGroup<R, C>
}

export const defaultOf = (row: Row, command: Command): string =>
  row.defaultFor?.[command] ??
  row.default ??
  (row.field !== undefined
    ? defaultTextOf(row.field)
    : row.type.metavar === ''
      ? 'false'
      : '')

export const helpOf = (row: Row, command: Command): string =>
  row.helpFor?.[command] ?? row.help

/** The commands that carry traffic, and `check`, which tries their flags. */
export const proxies = ['run', 'sidecar', 'demo', 'check'] as const

/** Those of them that may serve for long, and `check`. */
export const servers = ['run', 'sidecar', 'check'] as const

/** Those of them that are given Services. */
export const nodes = ['run', 'demo', 'check'] as const

/** What a node of a cluster runs. */
export const node = ['run', 'check'] as const
