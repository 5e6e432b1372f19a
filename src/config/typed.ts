import type { Command } from './commands.ts'
import { table, type Row } from './options.ts'
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

type FlagOf<C extends Command> = {
  [F in Flag]: C extends (typeof table)[F]['commands'][number] ? F : never
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

/** The rows of one command, in the table's order. */
export const rowsOf = (command: Command): readonly (readonly [string, Row])[] =>
  Object.entries<Row>(table).filter(([, row]) => row.commands.includes(command))

export const defaultOf = (row: Row, command: Command): string =>
  row.defaultFor?.[command] ?? row.default
