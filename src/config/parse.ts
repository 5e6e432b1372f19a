import { commandNames, commands, type Command, type CommandText } from './commands.ts'
import type { Row } from './options.ts'
import { suggest } from './suggest.ts'
import { readTokens, type Rows } from './tokens.ts'
import { camelCase, defaultOf, rowsOf, type OptionsOf } from './typed.ts'
import { UsageError } from './usage-error.ts'
import { BadValue } from './value.ts'

/** True when `--help` or `-h` is among the arguments, before any `--`. */
export const wantsHelp = (args: readonly string[]): boolean => {
  const end = args.indexOf('--')
  const flags = end === -1 ? args : args.slice(0, end)
  return flags.includes('--help') || flags.includes('-h')
}

const valueOf = (
  command: Command,
  flag: string,
  row: Row,
  texts: readonly string[] | undefined,
): unknown => {
  const { type } = row
  const last = texts?.at(-1) ?? defaultOf(row, command)
  try {
    if (type.kind === 'switch') return last === 'true'
    // Every text is parsed, so that a bad one is not hidden by a good one after it.
    const values = (texts ?? []).map(text => type.parse(text))
    if (type.kind === 'list') return values
    return texts === undefined ? type.parse(last) : values.at(-1)
  } catch (error) {
    if (!(error instanceof BadValue)) throw error
    throw new UsageError(`--${flag}: ${error.message}`, command)
  }
}

const rejectConflicts = (options: Partial<OptionsOf<'run'>>, command: Command): void => {
  const { minSyncPeriod = 0, syncPeriod = Number.POSITIVE_INFINITY } = options
  if (minSyncPeriod > syncPeriod)
    throw new UsageError(
      `--min-sync-period: ${minSyncPeriod}ms is longer than --sync-period, which is ${syncPeriod}ms; make it no longer`,
      command,
    )
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
  const rows: Rows = new Map(rowsOf(command))
  const given = readTokens(command, rows, args)
  const options = Object.fromEntries(
    [...rows].map(([flag, row]) => [
      camelCase(flag),
      valueOf(command, flag, row, given.get(flag)),
    ]),
  )
  const { needs }: CommandText = commands[command]
  if (needs !== undefined && !given.has(needs.flag))
    throw new UsageError(needs.message, command)
  rejectConflicts(options, command)
  return options as OptionsOf<C>
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
