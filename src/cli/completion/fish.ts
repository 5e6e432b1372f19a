import { type CommandLine, type FlagEntry, type Value } from './vocabulary.ts'

/** Between single quotes fish knows two escapes. */
const quoted = (text: string): string => `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`

const action = (value: Value): string => {
  if (value === 'any') return '-x'
  if (value === 'file') return '-r -F'
  if (value === 'directory') return "-x -a '(__fish_complete_directories)'"
  return `-x -a ${quoted(value.join(' '))}`
}

const flagLine = (command: string, { name, short, value, help }: FlagEntry): string =>
  [
    `complete -c usher -n '__usher_is ${command}' -l ${name}`,
    ...(short === undefined ? [] : [`-s ${short}`]),
    ...(value === undefined ? [] : [action(value)]),
    `-d ${quoted(help)}`,
  ].join(' ')

const bareLine = (command: string, value: Value): string =>
  value === 'file'
    ? `complete -c usher -n '__usher_is ${command}' -F`
    : `complete -c usher -n '__usher_is ${command}' ${action(value).replace('-x ', '-f ')}`

const linesOf = ({ name, summary, flags, bare }: CommandLine): string[] => [
  `complete -c usher -n __usher_first -a ${name} -d ${quoted(summary)}`,
  ...flags.map(flag => flagLine(name, flag)),
  ...(bare === undefined || bare === 'any' ? [] : [bareLine(name, bare)]),
]

/** A script for fish 3 and later. A command of usher is its first word, and only that. */
export const fishScript = (lines: readonly CommandLine[]): string => `\
# Completion of usher for fish. Made by: usher completion fish

function __usher_first
    test (count (commandline -opc)) -eq 1
end

function __usher_is
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end

complete -c usher -f
complete -c usher -n __usher_first -l help -s h -d 'List the commands'
complete -c usher -n __usher_first -l version -d 'Say the version'
${lines.flatMap(linesOf).join('\n')}
`
