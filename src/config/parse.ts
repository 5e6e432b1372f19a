import { commandNames, commands, type Command, type CommandText } from './commands.ts'
import { suggest } from '../util/suggest.ts'
import { acceptedBy, camelCase, type OptionsOf } from './options.ts'
import { defaultOf, type Row } from './row.ts'
import { readTokens, type Given } from './tokens.ts'
import { BadValue, type OptionType } from './types/basic.ts'
import { UsageError } from './usage-error.ts'

const beforeDashes = (args: readonly string[]): readonly string[] => {
  const end = args.indexOf('--')
  return end === -1 ? args : args.slice(0, end)
}

/** True when `--help` or `-h` is among the arguments, before any `--`. */
export const wantsHelp = (args: readonly string[]): boolean =>
  beforeDashes(args).some(arg => arg === '--help' || arg === '-h')

/** True when `--version` is among the arguments of a command that has it. */
export const wantsVersion = (command: Command, args: readonly string[]): boolean =>
  acceptedBy(command).some(([flag]) => flag === 'version') &&
  beforeDashes(args).some(arg => /^--version(?:=(?:raw|true))?$/.test(arg))

/** What `read` gives; a BadValue becomes a UsageError that names what it came `from`. */
export const named = <T>(command: Command, from: string, read: () => T): T => {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof BadValue)) throw error
    throw new UsageError(`${from}: ${error.message}`, command)
  }
}

/** What the texts of a flag set its field to. Throws BadValue. */
export const fieldValue = (
  type: OptionType<unknown>,
  texts: readonly string[],
): unknown => {
  const values = texts.map(text => type.parse(text))
  // Each is read, so that a bad one is not hidden by a good one after it.
  for (const value of values) type.read(value)
  return type.join === undefined ? values.at(-1) : type.join(values)
}

/** What is given without a flag is called as the help of the command has it. */
const nameOf = (command: Command, flag: string, { positional, type }: Row): string =>
  positional && !commands[command].usage.includes(`--${flag}`)
    ? type.metavar
    : `--${flag}`

/** What a flag makes of its texts, of its variable, or of its default. Throws UsageError. */
const optionOf = (row: Row, command: Command, given: Given, flag: string): unknown => {
  const { type, env = '', envUnless = '' } = row
  const byVariable = given.has(envUnless) ? '' : process.env[env]
  const byDefault = byVariable || defaultOf(row, command)
  const none = type.join !== undefined && byDefault === '' ? [] : [byDefault]
  const from = byVariable && !given.has(flag) ? env : nameOf(command, flag, row)
  return named(command, from, () => type.read(fieldValue(type, given.get(flag) ?? none)))
}

/** Throws UsageError for options that exclude one another. */
export const rejectConflicts = (
  options: Partial<OptionsOf<'run'>>,
  command: Command,
  given: Given,
): void => {
  const { minSyncPeriod = 0, syncPeriod = Number.POSITIVE_INFINITY } = options
  if (given.has('min-sync-period') && minSyncPeriod > syncPeriod)
    throw new UsageError(
      `--min-sync-period: ${minSyncPeriod}ms is longer than --sync-period, which is ${syncPeriod}ms; make it shorter`,
      command,
    )
}

const rejectTwoSources = (command: Command, given: Given): void => {
  const [path] = given.get('manifests') ?? []
  const other = ['kubeconfig', 'master'].find(
    flag => (given.get(flag)?.at(-1) ?? '') !== '',
  )
  // `usher check` looks at files and tries flags; it has no source.
  if (command !== 'run' || path === undefined || other === undefined) return
  throw new UsageError(
    `Services can't come both from manifests (${JSON.stringify(path)}) and from the API server (--${other}); leave one out`,
    command,
  )
}

export interface ReadOptions<C extends Command> {
  /** The texts of the flags that were given. */
  readonly given: Given
  readonly options: OptionsOf<C>
}

/** As parseOptions, with what was given. */
export const readOptions = <C extends Command>(
  command: C,
  args: readonly string[],
): ReadOptions<C> => {
  const rows = acceptedBy(command)
  const given = readTokens(command, new Map(rows), args)
  const values = rows.map(
    ([flag, row]) => [flag, row, optionOf(row, command, given, flag)] as const,
  )
  const options = Object.fromEntries(
    values.flatMap(([flag, { noEffect }, value]) =>
      noEffect === undefined ? [[camelCase(flag), value]] : [],
    ),
  ) as OptionsOf<C>
  const { needs }: CommandText = commands[command]
  if (needs !== undefined && !needs.oneOf.some(flag => given.has(flag)))
    throw new UsageError(needs.message, command)
  rejectTwoSources(command, given)
  return { given, options }
}

/**
 * The options of `command` from its arguments (those after the command's name). A flag
 * that is not a list may be given again: the last one counts, as with kube-proxy.
 * Throws UsageError, naming the flag, the value and what would be right.
 */
export const parseOptions = <C extends Command>(
  command: C,
  args: readonly string[],
): OptionsOf<C> => {
  const { options, given } = readOptions(command, args)
  rejectConflicts(options, command, given)
  return options
}

/** The error for a first argument that is no command. */
export const unknownCommand = (word: string): UsageError => {
  if (word.startsWith('-'))
    return new UsageError(`${word}: flags come after a command, as in usher run ${word}`)
  const meant = suggest(word, commandNames)
  const hint =
    meant === undefined ? `; give ${commandNames.join(', ')}` : `; did you mean ${meant}?`
  return new UsageError(`${JSON.stringify(word)} is not a command${hint}`)
}
