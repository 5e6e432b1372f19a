import { type CommandLine, type Value } from './vocabulary.ts'
import { quoted } from '../io.ts'

/** What is done where a value is due; undefined: nothing is known of it. */
const action = (value: Value): string | undefined => {
  if (value === 'any') return undefined
  if (value === 'file') return '_usher_paths -f'
  if (value === 'directory') return '_usher_paths -d'
  return `_usher_words ${quoted(value.join(' '))}`
}

const notDue = 'return 1'

/** Of what is done, for which `COMMAND FLAG` it is: many flags have the same values. */
const byAction = (lines: readonly CommandLine[]): ReadonlyMap<string, string[]> => {
  const cases = new Map<string, string[]>()
  const add = (does: string | undefined, pattern: string): void => {
    if (does === undefined) return
    cases.set(does, [...(cases.get(does) ?? []), quoted(pattern)])
  }
  for (const { name, flags, bare } of lines) {
    for (const flag of flags) {
      const does = flag.value === undefined ? notDue : action(flag.value)
      add(does, `${name} --${flag.name}`)
      if (flag.short !== undefined) add(does, `${name} -${flag.short}`)
    }
    if (bare !== undefined) add(action(bare), `${name} `)
  }
  return cases
}

const dashed = ({ flags }: CommandLine): string =>
  flags
    .flatMap(({ name, short }) => [
      `--${name}`,
      ...(short === undefined ? [] : [`-${short}`]),
    ])
    .join(' ')

/**
 * A script for bash 4 and later, without the package bash-completion. bash cuts words at `=`,
 * too (COMP_WORDBREAKS), so `--flag=value` is three of them.
 */
export const bashScript = (lines: readonly CommandLine[]): string => {
  const values = [...byAction(lines)].map(
    ([does, patterns]) => `    ${patterns.join(' | ')})\n      ${does} ;;`,
  )
  const flags = lines.map(
    line => `      ${line.name}) _usher_words ${quoted(dashed(line))} ;;`,
  )
  return `# Completion of usher for bash. Made by: usher completion bash

_usher_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_usher_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

# What may stand after flag $2 of command $1, or without a flag. Fails after a switch.
_usher_value() {
  case "$1 $2" in
${values.join('\n')}
  esac
}

_usher() {
  local cur=\${COMP_WORDS[COMP_CWORD]} flag=\${COMP_WORDS[COMP_CWORD - 1]} command=\${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _usher_words ${quoted([...lines.map(({ name }) => name), '--help', '--version'].join(' '))}
    return
  fi
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $flag == '=' ]]; then
    flag=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  [[ $flag == -* ]] && _usher_value "$command" "$flag" && return
  if [[ $cur == -* ]]; then
    case $command in
${flags.join('\n')}
    esac
  else
    _usher_value "$command" ''
  fi
}

complete -F _usher usher
`
}
