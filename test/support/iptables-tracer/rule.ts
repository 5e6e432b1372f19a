import { type Match, moduleNamed, type Option, plainMatches } from './matches.ts'
import { parseTarget, type Target } from './targets.ts'
import { quote } from './words.ts'

export interface Rule {
  readonly matches: readonly Match[]
  /** Undefined: a rule that only counts, or says something by its comment. */
  readonly target: Target | undefined
  /** One spelling for what iptables-restore is fed and what iptables-save prints. */
  readonly text: string
}

/**
 * From the words after `-A CHAIN`. Throws on any match, option or target that the tracer
 * does not know, whether a packet comes by or not.
 */
export const parseRule = (words: readonly string[]): Rule => {
  const plain = new Map<string, Match>()
  const loaded: LoadedModule[] = []
  let target: Target | undefined
  for (let at = 0; at < words.length;) {
    const not = words[at] === '!'
    if (not) at += 1
    const name = words[at] ?? ''
    const value = words[at + 1] ?? ''
    const read = plainMatches.get(name)
    if (read !== undefined) {
      if (plain.has(name)) throw new Error(`${name} twice`)
      const { text, holds } = read(value)
      plain.set(name, {
        words: [...(not ? ['!'] : []), name, text],
        test: moment => holds(moment) !== not,
      })
      at += 2
    } else if (name === '-m' && !not) {
      loaded.push({ name: value, takes: moduleNamed(value).takes, options: new Map() })
      at += 2
    } else if (name === '-j' && !not) {
      target = parseTarget(words.slice(at + 1))
      break
    } else {
      at += 1 + takeOption(loaded, name, { not, value })
    }
  }
  const plainInOrder = [...plainMatches.keys()].flatMap(key => plain.get(key) ?? [])
  const matches = [...plainInOrder, ...loaded.map(matchOf)]
  const all = [...matches.flatMap(match => match.words), ...(target?.words ?? [])]
  return { matches, target, text: all.map(quote).join(' ') }
}

interface LoadedModule {
  readonly name: string
  readonly takes: Readonly<Record<string, 0 | 1>>
  readonly options: Map<string, Option>
}

/** Of the module named last that has it; gives how many words follow. */
const takeOption = (
  loaded: readonly LoadedModule[],
  word: string,
  option: Option,
): number => {
  const name = word.replace(/^--/, '')
  const owner = loaded.findLast(
    ({ takes, options }) => name in takes && !options.has(name),
  )
  const count = owner?.takes[name]
  if (owner === undefined || count === undefined || !word.startsWith('--'))
    throw new Error(`unknown option ${word}`)
  if (option.not && count === 0) throw new Error(`! ${word}`)
  owner.options.set(name, option)
  return count
}

const matchOf = ({ name, options }: LoadedModule): Match => {
  const { words, test } = moduleNamed(name).match(options, name)
  return { words: ['-m', name, ...words], test }
}
