import { ToolError } from '../run-tool.ts'
import type { Backend } from '../xtables/backend.ts'
import { showChains } from '../xtables/show-chains.ts'
import { type Jump, textOf } from './jumps.ts'
import type { ChainSize } from './rule-book.ts'
import { readSaved } from './saved.ts'

/** What should be in the kernel. */
export interface Expected {
  readonly backend: Backend
  /** Those that packets come to first, and the empty ones that are there for this. */
  readonly chains: readonly ChainSize[]
  readonly jumps: readonly Jump[]
}

const tables = ['mangle', 'filter', 'nat'] as const

/**
 * What is wrong with the chains that packets come to first, or the jumps to them; '' for
 * nothing, and when nothing could be read.
 */
export const damageOf = async (expected: Expected): Promise<string> => {
  try {
    for (const table of tables) {
      const damage = await damageIn(table, expected)
      if (damage !== '') return `${damage} (table ${table})`
    }
    return ''
  } catch (error) {
    if (error instanceof ToolError) return missingChain(expected).catch(orNothing)
    throw error
  }
}

/** Of reading a whole table, which is done when a chain is gone. */
const timeoutMs = 120_000
/** Longer chains are not read whole: that their last rule is there says enough. */
const mostRules = 50

const damageIn = async (
  table: (typeof tables)[number],
  { backend, chains, jumps }: Expected,
): Promise<string> => {
  const first = chains.filter(chain => chain.table === table)
  const wanted = jumps.filter(jump => jump.table === table)
  const shows = [
    ...new Set(wanted.map(({ chain }) => chain)),
    ...first.map(({ name, rules }) => `${name}${rules > mostRules ? ` ${rules}` : ''}`),
  ]
  // One process; a chain that is missing ends it.
  const text = await showChains(backend, table, shows)
  const rules = new Set<string>()
  const counts = new Map<string, number>()
  for (const line of text.split('\n')) {
    if (!line.startsWith('-A ')) continue
    const rule = line.slice(3)
    const chain = rule.slice(0, rule.indexOf(' '))
    rules.add(rule)
    counts.set(chain, (counts.get(chain) ?? 0) + 1)
  }
  const gone = wanted.find(jump => !rules.has(textOf(jump)))
  if (gone !== undefined) return `the rule ${textOf(gone)} is gone`
  const short = first.find(chain => {
    const there = counts.get(chain.name) ?? 0
    return chain.rules > mostRules ? there === 0 : there !== chain.rules
  })
  return short === undefined ? '' : `somebody has changed chain ${short.name}`
}

/** Which chain it was; '' if another thing is why nothing could be read. */
const missingChain = async ({ backend, chains }: Expected): Promise<string> => {
  for (const table of tables) {
    const saved = await readSaved(await backend.save(table, { timeoutMs }), table)
    const gone = chains.find(
      chain => chain.table === table && !saved.chains.has(chain.name),
    )
    if (gone !== undefined) return `chain ${gone.name} is gone (table ${table})`
  }
  return ''
}

const orNothing = (error: unknown): string => {
  if (error instanceof ToolError) return ''
  throw error
}
