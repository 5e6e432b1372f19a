import { parseArgs } from 'node:util'
import type { Command } from './commands.ts'
import { table, type Row } from './options.ts'
import { suggest } from './suggest.ts'
import { UsageError } from './usage-error.ts'

export type Rows = ReadonlyMap<string, Row>

/** The texts given for each flag, in order; a switch gets `true` or `false`. */
export type Given = Map<string, string[]>

interface OptionToken {
  readonly name: string
  readonly rawName: string
  readonly value: string | undefined
  readonly inlineValue: boolean | undefined
}

const unknownFlag = (command: Command, rows: Rows, token: OptionToken): UsageError => {
  const all: Rows = new Map(Object.entries<Row>(table))
  const owned = token.rawName.startsWith('--') ? all.get(token.name) : undefined
  if (owned !== undefined) {
    const owners = owned.commands.map(owner => `usher ${owner}`).join(' and ')
    return new UsageError(`${token.rawName} is a flag of ${owners} only`, command)
  }
  const meant = suggest(token.name, [...rows.keys()])
  const hint = meant === undefined ? '' : `; did you mean --${meant}?`
  return new UsageError(`unknown flag ${token.rawName}${hint}`, command)
}

const takeSwitch = (command: Command, flag: string, token: OptionToken): string => {
  const given = token.value ?? 'true'
  if (given !== 'true' && given !== 'false')
    throw new UsageError(
      `--${flag}: ${JSON.stringify(given)} is neither true nor false; leave the value out to mean true`,
      command,
    )
  return given
}

const takeValue = (
  command: Command,
  flag: string,
  type: { readonly metavar: string },
  token: OptionToken,
): string => {
  const { value, inlineValue } = token
  // parseArgs takes `--a --b` as the value `--b` of `--a`; a forgotten value is likelier.
  if (value === undefined || (inlineValue !== true && /^-./.test(value)))
    throw new UsageError(
      `--${flag}: the value is missing; give it as --${flag} ${type.metavar}`,
      command,
    )
  return value
}

const take = (command: Command, rows: Rows, token: OptionToken, given: Given): void => {
  const row = token.rawName.startsWith('--') ? rows.get(token.name) : undefined
  const negated = token.name.startsWith('no-') ? token.name.slice(3) : ''
  if (row !== undefined) {
    const texts = given.get(token.name) ?? []
    const text =
      row.type.kind === 'switch'
        ? takeSwitch(command, token.name, token)
        : takeValue(command, token.name, row.type, token)
    given.set(token.name, [...texts, text])
  } else if (rows.get(negated)?.type.kind === 'switch' && token.value === undefined) {
    given.set(negated, ['false'])
  } else throw unknownFlag(command, rows, token)
}

/**
 * Sorts arguments by flag. Throws UsageError for a flag the command does not have, a
 * value that is missing and an argument that belongs to no flag.
 */
export const readTokens = (
  command: Command,
  rows: Rows,
  args: readonly string[],
): Given => {
  const options = Object.fromEntries(
    [...rows].map(([flag, { type }]) => [
      flag,
      { type: type.kind === 'switch' ? ('boolean' as const) : ('string' as const) },
    ]),
  )
  // Not strict: parseArgs would stop at the first fault in words of its own.
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const given: Given = new Map()
  const bare = [...rows].find(([, row]) => row.positional === true)?.[0]
  for (const token of tokens) {
    if (token.kind === 'option') take(command, rows, token, given)
    if (token.kind !== 'positional') continue
    if (bare === undefined)
      throw new UsageError(`unexpected argument ${JSON.stringify(token.value)}`, command)
    given.set(bare, [...(given.get(bare) ?? []), token.value])
  }
  return given
}
