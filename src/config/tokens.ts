import { parseArgs } from 'node:util'
import type { Command } from './commands.ts'
import { flagName } from '../source/options/option.ts'
import { routeOptions } from '../source/routes/route-fields.ts'
import { orList, suggest } from '../util/suggest.ts'
import { table } from './options.ts'
import type { Row } from './row.ts'
import { parseBool } from './types/basic.ts'
import { UsageError } from './usage-error.ts'

type Rows = ReadonlyMap<string, Row>

/** The texts given for each flag, in order; a switch gets `true` or `false`. */
export type Given = ReadonlyMap<string, readonly string[]>

interface OptionToken {
  readonly name: string
  readonly rawName: string
  readonly value: string | undefined
  readonly inlineValue: boolean | undefined
}

/** Whether it is what a route has after its question mark: `on-down`. */
const isOfRoute = (name: string): boolean =>
  Object.keys(routeOptions).some(option => flagName(option) === name)

const unknownFlag = (command: Command, rows: Rows, token: OptionToken): UsageError => {
  const owners = Object.entries<Row>(table)
    .filter(([name, { flag = name }]) => token.rawName === `--${flag}`)
    .flatMap(([, { commands }]) => commands)
  if (owners.length > 0) {
    const text = `${token.rawName} is a flag of usher ${orList(owners)} only`
    return new UsageError(text, command)
  }
  if (command === 'sidecar' && isOfRoute(token.name)) {
    const text = `unknown flag ${token.rawName}; it is an option of a route, like --route '...?${token.name}=...'`
    return new UsageError(text, command)
  }
  const meant = suggest(token.name, [...rows.keys()])
  const hint = meant === undefined ? '' : `; did you mean --${meant}?`
  return new UsageError(`unknown flag ${token.rawName}${hint}`, command)
}

const takeSwitch = (command: Command, flag: string, token: OptionToken): string => {
  const given = token.value ?? 'true'
  const on = parseBool(given)
  if (on === undefined)
    throw new UsageError(
      `--${flag}: ${JSON.stringify(given)} is neither true nor false; leave the value out to mean true`,
      command,
    )
  return String(on)
}

const takeValue = (
  command: Command,
  flag: string,
  type: { readonly metavar: string },
  token: OptionToken,
): string => {
  const { rawName, value, inlineValue } = token
  // parseArgs takes `--a --b` as the value `--b` of `--a`; a forgotten value is likelier.
  if (value === undefined || (inlineValue !== true && /^-[^\d.]/.test(value)))
    throw new UsageError(
      `--${flag}: the value is missing; give it as --${flag} ${type.metavar}`,
      command,
    )
  // Of `-v=2` parseArgs makes the value `=2`.
  return rawName.startsWith('--') ? value : value.replace(/^=/, '')
}

const isSwitch = (row: Row | undefined): boolean => row?.type.metavar === ''

const isOf = ({ short }: Row, { rawName }: OptionToken): boolean =>
  rawName.startsWith('--') || rawName === `-${short}`

const take = (
  command: Command,
  rows: Rows,
  token: OptionToken,
  given: Map<string, string[]>,
): void => {
  const named = rows.get(token.name)
  const row = named !== undefined && isOf(named, token) ? named : undefined
  const negated = token.name.startsWith('no-') ? token.name.slice(3) : ''
  if (row !== undefined) {
    const texts = given.get(token.name) ?? []
    const text = isSwitch(row)
      ? takeSwitch(command, token.name, token)
      : takeValue(command, token.name, row.type, token)
    given.set(token.name, [...texts, text])
  } else if (isSwitch(rows.get(negated)) && token.value === undefined) {
    given.set(negated, ['false'])
  } else throw unknownFlag(command, rows, token)
}

/** kube-proxy takes `--log_dir` for `--log-dir`. */
const dashed = (rows: Rows, args: readonly string[]): string[] => {
  const end = args.indexOf('--')
  return args.map((arg, index) => {
    const [name = ''] = /^--[^=]+/.exec(arg) ?? []
    const known = name.replaceAll('_', '-')
    const isFlag = (end === -1 || index < end) && rows.has(known.slice(2))
    return isFlag ? known + arg.slice(name.length) : arg
  })
}

const unexpected = (
  command: Command,
  text: string,
  before: string | undefined,
): string => {
  const hint =
    before !== undefined && parseBool(text) !== undefined
      ? `; to give it to ${before}, write ${before}=${text}`
      : command === 'sidecar'
        ? `; give ${text.includes('://') ? 'a route as --route' : 'a file of routes as --config'} ${text}`
        : ''
  return `unexpected argument ${JSON.stringify(text)}${hint}`
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
    [...rows].map(([flag, row]) => [
      flag,
      {
        type: isSwitch(row) ? ('boolean' as const) : ('string' as const),
        ...(row.short === undefined ? {} : { short: row.short }),
      },
    ]),
  )
  // Not strict: parseArgs would stop at the first fault in words of its own.
  const { tokens } = parseArgs({
    args: dashed(rows, args),
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const given = new Map<string, string[]>()
  const bare = [...rows].find(([, row]) => row.positional === true)?.[0]
  let lastSwitch: string | undefined
  for (const token of tokens) {
    if (token.kind === 'option') take(command, rows, token, given)
    if (token.kind === 'positional') {
      const mistaken = lastSwitch !== undefined && parseBool(token.value) !== undefined
      if (bare === undefined || mistaken)
        throw new UsageError(unexpected(command, token.value, lastSwitch), command)
      given.set(bare, [...(given.get(bare) ?? []), token.value])
    }
    lastSwitch =
      token.kind === 'option' && token.value === undefined ? token.rawName : undefined
  }
  return given
}
