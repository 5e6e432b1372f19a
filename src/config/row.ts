import type { ModeName } from '../mode/mode.ts'
import type { Command } from './commands.ts'
import type { FieldPath } from './kube-proxy/shape.ts'
import type { OptionType } from './value.ts'

export type Group =
  | 'What'
  | 'Kubernetes API'
  | 'Where it listens'
  | 'Relay'
  | 'TCP'
  | 'UDP'
  | 'Pace and limits'
  | 'How it is measured'
  | 'Results'
  | 'Log'
  | 'As kube-proxy has them'

/** One flag: everything that parsing, help and docs/flags.md say of it comes from here. */
export interface Row {
  readonly commands: readonly Command[]
  readonly group: Group
  readonly type: OptionType<unknown>
  /** What a user would type to get the default; '' for none, or for an empty list. */
  readonly default: string
  /** Other defaults for some commands. */
  readonly defaultFor?: Partial<Readonly<Record<Command, string>>>
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
}

/** The commands that carry traffic, and `check`, which tries their flags. */
export const proxies = ['run', 'sidecar', 'demo', 'check'] as const

/** Those of them that may serve for long, and `check`. */
export const servers = ['run', 'sidecar', 'check'] as const

/** Those of them that are given Services. */
export const nodes = ['run', 'demo', 'check'] as const

/** What a node of a cluster runs. */
export const node = ['run', 'check'] as const
