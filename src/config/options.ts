import type { Command } from './commands.ts'
import { bench } from './options/bench.ts'
import { connectTime, conntrack, kernelModes } from './options/kernel-modes.ts'
import { control } from './options/control.ts'
import { kubeProxy } from './options/kube-proxy.ts'
import { relay, traffic } from './options/relay.ts'
import { listening, logging, pace, pod, upgrade } from './options/running.ts'
import { cluster, what } from './options/what.ts'
import { withoutEffect } from './options/without-effect.ts'
import type { Row } from './row.ts'

/**
 * The one table of options, rows of a group together. A flag's camelCase spelling is its
 * name in `OptionsOf`.
 */
export const table = {
  ...what,
  ...control,
  ...bench,
  ...cluster,
  ...listening,
  ...connectTime,
  ...relay,
  ...traffic,
  ...pace,
  ...pod,
  ...upgrade,
  ...logging,
  ...kubeProxy,
  ...kernelModes,
  ...conntrack,
  ...withoutEffect,
} as const satisfies Readonly<Record<string, Row>>

export type Flag = keyof typeof table

type CamelCase<S extends string> = S extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S

type ReadBy<Type> = Type extends { read(value: never): infer T } ? T : never

/** A flag without effect has no option: nothing could be done with it. */
type FlagOf<C extends Command> = {
  [F in Flag]: (typeof table)[F] extends { readonly noEffect: string }
    ? never
    : C extends (typeof table)[F]['commands'][number]
      ? F
      : never
}[Flag]

type NameOf<F extends Flag> = (typeof table)[F] extends {
  readonly flag: infer Name extends string
}
  ? Name
  : F

/** What command `C` is called with: `OptionsOf<'run'>['drainTimeout']` is a number. */
export type OptionsOf<C extends Command> = {
  readonly [F in FlagOf<C> as CamelCase<NameOf<F>>]: ReadBy<(typeof table)[F]['type']>
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
  Object.entries<Row>(table).flatMap(([key, row]) =>
    row.commands.includes(command) ? [[row.flag ?? key, row] as const] : [],
  )

/** The rows of one command that do something, in the table's order. */
export const rowsOf = (command: Command): Rows =>
  acceptedBy(command).filter(([, row]) => row.noEffect === undefined)
