import type { Listing } from './listing.ts'
import type { Random } from './random.ts'

/** What another program may do to the table, and the command for it. */
export const damages = (
  random: Random,
  table: string,
  there: Listing | undefined,
): readonly [what: string, input: string] => {
  const flushed = ['all rules are gone', 'flush ruleset\n'] as const
  if (there === undefined) return flushed
  const chains = [...there.chains.keys()].filter(name => name !== 'stamp')
  const filled = [...there.sets].filter(
    ([name, { elements }]) => elements.length > 0 && name !== 'stamp',
  )
  const chain = random.pick(chains)
  const all = [
    flushed,
    ['the table is gone', `delete table ${table}\n`],
    ['a chain is empty', `flush chain ${table} ${chain}\n`],
    ['a rule more', `insert rule ${table} ${chain} counter drop\n`],
    ['a chain more', `add chain ${table} foreign\nadd rule ${table} foreign drop\n`],
    [
      'a base chain more',
      `add chain ${table} foreign { type filter hook input priority -500; policy drop; }\n`,
    ],
    ['a set more', `add set ${table} foreign { type ipv4_addr; }\n`],
    ['the table sleeps', `add table ${table} { flags dormant; }\n`],
  ] as const
  if (filled.length === 0 || random.chance(0.4)) return random.pick(all)
  const [name, { elements, definition }] = random.pick(filled)
  const element = random.pick(elements)
  const key = element.replace(/ : .*/, '').replace(/ (?:timeout|expires) .*/, '')
  const gone = `delete element ${table} ${name} { ${key} }\n`
  const verdict = definition.some(line => line.endsWith(': verdict'))
  if (verdict && random.chance(0.5))
    return [
      `${name} has another value`,
      `${gone}add element ${table} ${name} { ${key} : drop }\n`,
    ]
  return random.chance(0.5)
    ? [`${name} has an element less`, gone]
    : [`${name} is empty`, `flush ${definition[0]} ${table} ${name}\n`]
}
