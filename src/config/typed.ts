import type { Command } from './commands.ts'
import { table } from './options.ts'
import type { Row } from './row.ts'
import type { List, Switch, Value } from './value.ts'

export type Flag = keyof typeof table

type CamelCase<S extends string> = S extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S

type Parsed<Type> = Type extends Switch
  ? boolean
  : Type extends Value<infer T>
    ? T
    : Type extends List<infer T>
      ? readonly T[]
      : never

/** A flag without effect has no option: nothing could be done with it. */
type FlagOf<C extends Command> = {
  [F in Flag]: (typeof table)[F] extends { readonly noEffect: string }
    ? never
    : C extends (typeof table)[F]['commands'][number]
      ? F
      : never
}[Flag]

/** What command `C` is called with: `OptionsOf<'run'>['drainTimeout']` is a number. */
export type OptionsOf<C extends Command> = {
  readonly [F in FlagOf<C> as CamelCase<F>]: Parsed<(typeof table)[F]['type']>
}

type SharedKey = keyof OptionsOf<'run'> &
  keyof OptionsOf<'sidecar'> &
  keyof OptionsOf<'demo'>

/** The options that `run`, `sidecar` and `demo` have in common. */
export type SharedOptions = Pick<OptionsOf<'run'>, SharedKey>

export const camelCase = (flag: string): string =>
  flag.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase())

export type Rows = readonly (readonly [flag: string, row: Row])[]

/** All that one command takes, in the table's order. */
export const acceptedBy = (command: Command): Rows =>
  Object.entries<Row>(table).filter(([, row]) => row.commands.includes(command))

/** The rows of one command that do something, in the table's order. */
export const rowsOf = (command: Command): Rows =>
  acceptedBy(command).filter(([, row]) => row.noEffect === undefined)

export const defaultOf = (row: Row, command: Command): string =>
  row.defaultFor?.[command] ?? row.default
