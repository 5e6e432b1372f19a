import { defaultText, notations, whatItIs, withoutEffect } from '../src/cli/help.ts'
import { wrap } from '../src/cli/io.ts'
import {
  commandNames,
  commands,
  type Command,
  type CommandText,
} from '../src/config/commands.ts'
import { exitCodes } from '../src/config/commands.ts'
import { rowsOf } from '../src/config/options.ts'
import { helpOf, type Row } from '../src/config/row.ts'

/** As roff takes it literally: a bare dash would become a hyphen, which nobody can paste. */
const literal = (text: string): string =>
  text.replaceAll('\\', String.raw`\e`).replaceAll('-', String.raw`\-`)

/** Of flags and of code in backquotes the dashes are literal; in other words they are hyphens. */
const marked = (text: string): string =>
  text
    .replaceAll('\\', String.raw`\e`)
    .split('`')
    .map((part, index) =>
      index % 2 === 1
        ? String.raw`\fB${part.replaceAll('-', String.raw`\-`)}\fP`
        : part.replaceAll(/(?<![\w-])--?\w[\w-]*/g, flag =>
            flag.replaceAll('-', String.raw`\-`),
          ),
    )
    .join('')

/** A line that began with a dot or an apostrophe would be a request. */
const guarded = (line: string): string => line.replace(/^[.']/, String.raw`\&$&`)

const width = 78

/** Paragraphs have a line for each sentence, as mdoc(7) asks for, so that gaps after them are even. */
const prose = (text: string): string[] =>
  text
    .split(/(?<=[.!?])\s+(?=["`A-Z(])/)
    .flatMap(sentence => wrap(marked(sentence), width).map(guarded))

const codeBlock = (line: string): string[] => [
  '.Bd -literal -offset indent',
  guarded(literal(line)),
  '.Ed',
]

/** An item of a list: what it is about, and its text. */
const item = (tag: string, text: string): string[] => [`.It ${tag}`, ...prose(text)]

/** `August 3, 2026`, as .Dd wants it. */
const dateText = (date: Date): string =>
  date.toLocaleDateString('en-US', { dateStyle: 'long', timeZone: 'UTC' })

const pageOf = (
  name: string,
  summary: string,
  date: Date,
  body: readonly string[],
): string =>
  [
    `.Dd ${dateText(date)}`,
    `.Dt ${name.toUpperCase()} 1`,
    '.Os',
    '.Sh NAME',
    `.Nm ${name}`,
    `.Nd ${marked(summary.replace(/\.$/, '').replace(/^[A-Z](?=[a-z])/, letter => letter.toLowerCase()))}`,
    ...body,
    '',
  ].join('\n')

const flagItem = (flag: string, row: Row, command: Command): string[] => {
  const { metavar } = row.type
  const ending = metavar === '' ? '' : ` Ar ${literal(metavar)}`
  const shown = defaultText(row, command)
  return [
    `.It ${row.short === undefined ? '' : `Fl ${row.short}${ending} , `}Fl ${literal(`-${flag}`)}${ending}`,
    ...prose(helpOf(row, command)),
    ...(shown === '' ? [] : prose(`Default: ${shown}.`)),
  ]
}

/** Rows of a group stand together in the table. */
const flagGroups = (command: Command): string[] => {
  const lines: string[] = []
  let last: string | undefined
  for (const [flag, row] of rowsOf(command)) {
    if (row.group !== last) {
      if (last !== undefined) lines.push('.El')
      if (row.group !== 'What') lines.push(`.Ss ${row.group}`)
      lines.push('.Bl -tag -width Ds')
    }
    last = row.group
    lines.push(...flagItem(flag, row, command))
  }
  return [...lines, '.El']
}

const environment = (command: Command): string[] => {
  const items = rowsOf(command).flatMap(([flag, { env }]) =>
    env === undefined
      ? []
      : item(`Ev ${env}`, `The value of --${flag} where that is not given.`),
  )
  return items.length === 0
    ? []
    : ['.Sh ENVIRONMENT', '.Bl -tag -width Ds', ...items, '.El']
}

const examples = (list: CommandText['examples']): string[] => [
  '.Sh EXAMPLES',
  ...list.flatMap(([line, meaning], index) => [
    ...(index === 0 ? [] : ['.Pp']),
    ...prose(`${meaning[0]?.toUpperCase()}${meaning.slice(1)}:`),
    ...codeBlock(line),
  ]),
]

const seeAlso = (names: readonly string[]): string[] => {
  const sorted = names.toSorted()
  return [
    '.Sh SEE ALSO',
    ...sorted.map(
      (name, index) => `.Xr ${name} 1${index < sorted.length - 1 ? ' ,' : ''}`,
    ),
  ]
}

const commandPage = (command: Command, date: Date): string => {
  const text: CommandText = commands[command]
  const rest = withoutEffect(command)
  return pageOf(`usher-${command}`, text.summary, date, [
    '.Sh SYNOPSIS',
    `.Nm usher ${command}`,
    ...wrap(marked(text.usage), width).map(guarded),
    '.Sh DESCRIPTION',
    ...prose(text.description),
    '.Sh OPTIONS',
    ...flagGroups(command),
    '.Pp',
    ...notations(command).flatMap(prose),
    ...(rest === '' ? [] : ['.Pp', ...prose(rest)]),
    ...environment(command),
    ...examples(text.examples),
    ...seeAlso(['usher']),
  ])
}

const mainPage = (date: Date): string =>
  pageOf('usher', 'a layer-4 load-balancing proxy for Kubernetes Services', date, [
    '.Sh SYNOPSIS',
    '.Nm usher',
    '.Ar COMMAND',
    '.Op Ar flags',
    '.Sh DESCRIPTION',
    ...prose(whatItIs),
    '.Pp',
    'Commands, each with its own manual page:',
    '.Bl -tag -width Ds',
    ...commandNames.flatMap(name => item(`Xr usher-${name} 1`, commands[name].summary)),
    '.El',
    '.Sh EXIT STATUS',
    '.Bl -tag -width Ds',
    ...exitCodes.flatMap(([code, meaning]) => item(code, `${meaning}.`)),
    '.El',
    ...examples([...commands.demo.examples, ...commands.run.examples]),
    ...seeAlso(commandNames.map(name => `usher-${name}`)),
  ])

/** Every page by the name of its file, in the language mdoc(7), from the tables behind `--help`. */
export const manPages = (date: Date): ReadonlyMap<string, string> =>
  new Map([
    ['usher.1', mainPage(date)],
    ...commandNames.map(name => [`usher-${name}.1`, commandPage(name, date)] as const),
  ])
