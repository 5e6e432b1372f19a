import { type CommandLine, type FlagEntry, type Value } from './vocabulary.ts'
import { quoted } from '../io.ts'

/** As _arguments and _describe want it between colons and brackets. */
const escaped = (text: string): string => text.replaceAll(/[\\:[\]]/g, String.raw`\$&`)

const action = (value: Value): string => {
  if (value === 'any') return ' '
  if (value === 'file') return '_files'
  if (value === 'directory') return '_files -/'
  return `(${value.map(escaped).join(' ')})`
}

/** `*` where it may be given again; `=` takes its value after a blank or an equals sign. */
const flagSpecs = ({ name, short, value, repeatable, help }: FlagEntry): string[] => {
  const names = [
    `--${name}${value === undefined ? '' : '='}`,
    ...(short === undefined ? [] : [`-${short}`]),
  ]
  const ending = value === undefined ? '' : `:value:${action(value)}`
  return names.map(
    spelled => `${repeatable ? '*' : ''}${spelled}[${escaped(help)}]${ending}`,
  )
}

const argumentsOf = ({ name, flags, bare }: CommandLine): string => {
  const specs = [
    ...flags.flatMap(flagSpecs),
    ...(bare === undefined ? [] : [`*:argument:${action(bare)}`]),
  ]
  const lines = specs.map(spec => `        ${quoted(spec)}`)
  return `    ${name})\n      _arguments -s -S \\\n${lines.join(' \\\n')}\n      ;;`
}

/** A script for zsh, to be read by `source` after compinit, or as file _usher of the fpath. */
export const zshScript = (lines: readonly CommandLine[]): string => {
  const list = lines.map(
    ({ name, summary }) => `    ${quoted(`${name}:${escaped(summary)}`)}`,
  )
  return `#compdef usher
# Completion of usher for zsh. Made by: usher completion zsh

_usher() {
  local context state state_descr line
  local -A opt_args
  local -a usher_commands=(
${list.join('\n')}
  )
  _arguments -C \\
    '(- :)'{-h,--help}'[List the commands]' \\
    '(- :)--version[Say the version]' \\
    '1:command:->command' \\
    '*::argument:->rest' && return
  if [[ $state == command ]]; then
    _describe -t commands 'command of usher' usher_commands
    return
  fi
  case $words[1] in
${lines.map(argumentsOf).join('\n')}
  esac
}

# As a file of the fpath this is the body of the function; read by source it is not.
if [[ $funcstack[1] == _usher ]]; then
  _usher "$@"
else
  compdef _usher usher
fi
`
}
