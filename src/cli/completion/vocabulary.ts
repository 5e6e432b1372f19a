import { commandNames, commands } from '../../config/commands.ts'
import { rowsOf } from '../../config/options.ts'
import { helpOf, type Row } from '../../config/row.ts'

/** What can be completed where a value is due: one of these words, a path, or nothing. */
export type Value = readonly string[] | 'file' | 'directory' | 'any'

export interface FlagEntry {
  /** Without its dashes. */
  readonly name: string
  readonly short: string | undefined
  /** Undefined of a switch. */
  readonly value: Value | undefined
  readonly repeatable: boolean
  /** The first sentence of its help. */
  readonly help: string
}

/** What may stand on the command line of one command. */
export interface CommandLine {
  readonly name: string
  readonly summary: string
  readonly flags: readonly FlagEntry[]
  /** What stands there without a flag; undefined: nothing does. */
  readonly bare: Value | undefined
}

const valueOf = ({ type }: Row): Value =>
  type.choices ??
  (['FILE', 'PATH'].includes(type.metavar)
    ? 'file'
    : type.metavar === 'DIR'
      ? 'directory'
      : 'any')

/** A list of flags has a line for each. A full stop inside a name is followed by no blank. */
const firstSentence = (text: string): string =>
  /^.*?(?=[.:;](?: |$))/s.exec(text)?.[0] ?? text

const helpFlag: FlagEntry = {
  name: 'help',
  short: 'h',
  value: undefined,
  repeatable: false,
  help: 'Show its description and flags',
}

/** Flags without effect are left out: nobody should be led to them. */
export const commandLines = (): readonly CommandLine[] => [
  ...commandNames.map(name => {
    const rows = rowsOf(name)
    const bare = rows.find(([, { positional }]) => positional === true)?.[1]
    const flags = rows.map(([flag, row]) => ({
      name: flag,
      short: row.short,
      value: row.type.metavar === '' ? undefined : valueOf(row),
      repeatable: row.type.join !== undefined,
      help: firstSentence(helpOf(row, name)),
    }))
    return {
      name,
      summary: commands[name].summary.replace(/\.$/, ''),
      flags: flags.some(({ name: flag }) => flag === helpFlag.name)
        ? flags
        : [...flags, helpFlag],
      bare: bare === undefined ? undefined : valueOf(bare),
    }
  }),
  {
    name: 'help',
    summary: 'Show help for usher or a command',
    flags: [],
    bare: commandNames,
  },
]
