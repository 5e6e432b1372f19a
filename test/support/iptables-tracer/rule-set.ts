import { parseRule, type Rule } from './rule.ts'
import { wordsOf } from './words.ts'

export interface Chain {
  /** Of a built-in chain; undefined of one that somebody made. */
  policy: 'ACCEPT' | 'DROP' | undefined
  rules: Rule[]
}

/** Tables by name, chains in them by name. */
export type RuleSet = Map<string, Map<string, Chain>>

const builtIn: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
}

const emptyTable = (names: readonly string[]): Map<string, Chain> =>
  new Map(names.map(name => [name, { policy: 'ACCEPT', rules: [] }]))

/** Of a kernel without any rule. */
export const noRules = (): RuleSet =>
  new Map(Object.entries(builtIn).map(([table, names]) => [table, emptyTable(names)]))

/**
 * What is there after `iptables-restore --noflush` was fed `text`, which may as well be
 * what iptables-save printed. Throws, naming the line, on what it does not understand.
 */
export const restore = (text: string, before: RuleSet = noRules()): RuleSet => {
  const tables: RuleSet = new Map(
    [...before].map(([table, chains]) => [table, copyOf(chains)]),
  )
  let chains: Map<string, Chain> | undefined
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    try {
      chains = restoreLine(line, tables, chains)
    } catch (error) {
      throw new Error(`${String(error)} in: ${line}`, { cause: error })
    }
  }
  if (chains !== undefined) throw new Error('COMMIT is missing')
  return tables
}

const copyOf = (chains: ReadonlyMap<string, Chain>): Map<string, Chain> =>
  new Map(
    [...chains].map(([name, { policy, rules }]) => [name, { policy, rules: [...rules] }]),
  )

/** The chains of the table that the next line is about. */
const restoreLine = (
  line: string,
  tables: RuleSet,
  chains: Map<string, Chain> | undefined,
): Map<string, Chain> | undefined => {
  if (line.startsWith('*')) {
    const table = tables.get(line.slice(1))
    if (table === undefined || chains !== undefined) throw new Error('unexpected table')
    return table
  }
  if (chains === undefined) throw new Error('outside of a table')
  if (line === 'COMMIT') checkJumps(chains)
  else if (line.startsWith(':')) declare(line, chains)
  else command(wordsOf(line), chains)
  return line === 'COMMIT' ? undefined : chains
}

const declare = (line: string, chains: Map<string, Chain>): void => {
  const [, name = '', policy] = /^:(\S+) (ACCEPT|DROP|-) \[\d+:\d+\]$/.exec(line) ?? []
  const chain = chains.get(name)
  if (policy === undefined) throw new Error('not a chain')
  if (policy === '-' && chain?.policy !== undefined) throw new Error('it has a policy')
  if (policy === '-') chains.set(name, { policy: undefined, rules: [] })
  else if (chain?.policy === undefined) throw new Error('no built-in chain')
  else chain.policy = policy === 'DROP' ? 'DROP' : 'ACCEPT'
}

const command = (
  [verb = '', name = '', ...words]: readonly string[],
  chains: Map<string, Chain>,
): void => {
  const chain = chains.get(name)
  if (chain === undefined) throw new Error('no such chain')
  switch (verb) {
    case '-A':
      chain.rules.push(parseRule(words))
      return
    case '-I':
      chain.rules.unshift(parseRule(words))
      return
    case '-D': {
      const { text } = parseRule(words)
      const at = chain.rules.findIndex(rule => rule.text === text)
      if (at === -1) throw new Error('no such rule')
      chain.rules.splice(at, 1)
      return
    }
    case '-F':
      chain.rules = []
      return
    case '-X':
      if (chain.rules.length > 0 || chain.policy !== undefined)
        throw new Error('can not be deleted')
      chains.delete(name)
      return
    default:
      throw new Error(`unknown command ${verb}`)
  }
}

const checkJumps = (chains: ReadonlyMap<string, Chain>): void => {
  for (const { rules } of chains.values())
    for (const { target, text } of rules)
      if (target?.kind === 'chain' && !chains.has(target.chain))
        throw new Error(`jump to a chain that is not there: ${text}`)
}

/** All of it in one spelling, chains by name; for comparing. */
export const canonicalText = (tables: RuleSet): string => {
  const lines: string[] = []
  for (const [table, chains] of [...tables].toSorted(byName)) {
    lines.push(`*${table}`)
    for (const [name, { policy, rules }] of [...chains].toSorted(byName)) {
      lines.push(`:${name} ${policy ?? '-'}`)
      for (const { text } of rules) lines.push(`-A ${name} ${text}`)
    }
  }
  return lines.join('\n')
}

const byName = (
  [a]: readonly [string, unknown],
  [b]: readonly [string, unknown],
): number => (a < b ? -1 : 1)
