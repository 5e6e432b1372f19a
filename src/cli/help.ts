import {
  type Command,
  commandNames,
  commands,
  type CommandText,
  exitCodes,
} from '../config/commands.ts'
import { acceptedBy, rowsOf } from '../config/options.ts'
import { defaultOf, helpOf, type Row } from '../config/row.ts'
import { wrap } from './io.ts'

const clamp = (columns: number | undefined): number =>
  Math.min(100, Math.max(80, columns ?? 80))

export const whatItIs =
  'Usher is a proxy for Kubernetes Services. It runs on a node in place of kube-proxy, or in a ' +
  'pod as a sidecar, and load-balances TCP connections and UDP datagrams across endpoints; if ' +
  'one refuses or does not answer, it tries another. In its kernel modes it programs iptables, ' +
  'nftables or ipvs instead.'

/** What `usher --help` prints; `columns` is the terminal's width, used within 80..100. */
export const mainHelp = (columns?: number): string => {
  const width = clamp(columns)
  const name = Math.max(...commandNames.map(command => command.length))
  return [
    ...wrap(whatItIs, width),
    '',
    'Usage: usher COMMAND [flags]',
    '',
    'Commands:',
    ...commandNames.map(
      command => `  ${command.padEnd(name)}  ${commands[command].summary}`,
    ),
    '',
    'Examples:',
    ...examples([...commands.demo.examples, ...commands.run.examples]),
    '',
    'More:',
    '  usher COMMAND --help  the flags of a command',
    '  usher version         the version of Usher',
    '',
    'Exit codes:',
    ...exitCodes.flatMap(([code, meaning]) => coded(code, meaning, width)),
    '',
  ].join('\n')
}

const coded = (code: string, meaning: string, width: number): readonly string[] =>
  wrap(meaning, width, '      ').map((line, at) =>
    at === 0 ? `  ${code.padEnd(4)}${line.trimStart()}` : line,
  )

const examples = (list: CommandText['examples']): string[] =>
  list.flatMap(([line, meaning]) => [`  # ${meaning}`, `  ${line}`])

/** `--drain-timeout DURATION`, `--once`, `--v NUMBER, -v NUMBER`. */
export const flagText = (flag: string, { type, short }: Row): string => {
  const ending = type.metavar === '' ? '' : ` ${type.metavar}`
  const long = `--${flag}${ending}`
  return short === undefined ? long : `${long}, -${short}${ending}`
}

/** The flags that are taken without effect, under the reason they have in common. */
export const flagsWithoutEffect = (
  command: Command,
): ReadonlyMap<string, readonly string[]> => {
  const reasons = new Map<string, string[]>()
  for (const [flag, { noEffect }] of acceptedBy(command))
    if (noEffect !== undefined)
      reasons.set(noEffect, [...(reasons.get(noEffect) ?? []), `--${flag}`])
  return reasons
}

/** The default as help and docs/flags.md show it; '' when there is nothing to say. */
export const defaultText = (row: Row, command: Command): string =>
  row.type.metavar === '' ? '' : (row.defaultText ?? defaultOf(row, command))

const flagLines = (
  flag: string,
  row: Row,
  command: Command,
  width: number,
): readonly string[] => {
  const shown = defaultText(row, command)
  const ending = shown === '' ? '' : `  (default: ${shown})`
  return [
    `  ${flagText(flag, row)}${ending}`,
    ...wrap(helpOf(row, command), width, '      '),
  ]
}

const flagGroups = (command: Command, width: number): string[] => {
  const lines: string[] = []
  let last: string | undefined
  for (const [flag, row] of rowsOf(command)) {
    if (row.group !== last)
      lines.push('', row.group === 'What' ? 'Flags:' : `${row.group}:`)
    last = row.group
    lines.push(...flagLines(flag, row, command, width))
  }
  return lines
}

/** One paragraph, so that they don't drown what matters; '' without any. */
export const withoutEffect = (command: Command): string => {
  const flags = [...flagsWithoutEffect(command).values()].flat()
  return flags.length === 0
    ? ''
    : `Accepted for compatibility with kube-proxy, but without effect: ${flags.join(', ')}.`
}

/** The lines on how values are written, for those types the command has. */
export const notations = (command: Command): string[] => {
  const metavars = new Set(rowsOf(command).map(([, { type }]) => type.metavar))
  const notes = [
    metavars.has('DURATION') &&
      'DURATION is one or more numbers with a unit (ms, s, m, h): 250ms, 1m30s.',
    metavars.has('BYTES') &&
      'BYTES is a number with an optional unit (KiB, MiB): 65536, 64KiB.',
    'If a flag is given more than once, the last value counts, except for flags that may be repeated.',
  ]
  return notes.filter(note => note !== false)
}

/** What `usher COMMAND --help` prints. */
export const commandHelp = (command: Command, columns?: number): string => {
  const width = clamp(columns)
  const { usage, description, summary, examples: lines }: CommandText = commands[command]
  const rest = withoutEffect(command)
  return [
    summary,
    '',
    `Usage: usher ${command} ${usage}`,
    '',
    ...wrap(description, width),
    '',
    lines.length === 1 ? 'Example:' : 'Examples:',
    ...examples(lines),
    ...flagGroups(command, width),
    '',
    ...notations(command).flatMap(note => wrap(note, width)),
    ...(rest === '' ? [] : ['', ...wrap(rest, width)]),
    '',
  ].join('\n')
}
