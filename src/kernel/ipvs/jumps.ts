import { isOwnJump } from '../cleanup/kube-chains.ts'
import type { Backend } from '../xtables/backend.ts'
import { showChains } from '../xtables/show-chains.ts'
import { isIpvsChain, type Jump, type RuleTable } from './rules.ts'

/** What `iptables -S` says of some chains of one table. */
export interface ShownTable {
  /** How many rules each has. */
  readonly sizes: ReadonlyMap<string, number>
  /** Rules as printed, without `-A `. */
  readonly rules: readonly string[]
}

/**
 * The built-in chains with jumps, and no chain that is long. Rejects with ToolError, also
 * when one of `chains` is not there.
 */
export const showTable = async (
  backend: Backend,
  { name, builtIn }: RuleTable,
  chains: readonly string[],
): Promise<ShownTable> => {
  const text = await showChains(backend, name, [...builtIn, ...chains])
  const sizes = new Map<string, number>()
  const rules: string[] = []
  for (const line of text.split('\n')) {
    const [, verb, chain = ''] = /^-([NPA]) (\S+)/.exec(line) ?? []
    if (verb === undefined) continue
    sizes.set(chain, (sizes.get(chain) ?? 0) + (verb === 'A' ? 1 : 0))
    if (verb === 'A') rules.push(line.slice(3))
  }
  return { sizes, rules }
}

const textOf = ({ chain, target, comment }: Jump): string =>
  `${chain} -m comment --comment "${comment}" -j ${target}`

/**
 * Lines that make the jumps what they have to be: nothing when they are. Others' rules
 * between them stay where they are; jumps of another mode into a chain that is ipvs' own
 * now are taken out.
 */
export const jumpRepairs = (
  { name, jumps, builtIn }: RuleTable,
  rules: readonly string[],
): readonly string[] => {
  const wanted = new Map(jumps.map(jump => [textOf(jump), jump]))
  const missing = new Set(wanted.keys())
  const out: string[] = []
  for (const rule of rules) {
    if (missing.delete(rule)) continue
    const [, chain = '', matches = '', target = ''] =
      /^(\S+) (.*)-[jg] (\S+)$/.exec(rule) ?? []
    if (!builtIn.includes(chain) || !isIpvsChain(name, target)) continue
    const comment = /--comment (?:"([^"]*)"|(\S+))/.exec(matches)
    const own = isOwnJump({
      target,
      comment: comment?.[1] ?? comment?.[2] ?? '',
      isBare: matches.trim() === '',
    })
    if (own) out.push(`-D ${rule}`)
  }
  return [...out, ...Array.from(missing, rule => `-I ${rule}`)]
}

/** What is wrong in a table that was written; '' for nothing. */
export const tableDamage = (
  { name, jumps, chains }: RuleTable,
  { sizes, rules }: ShownTable,
): string => {
  const there = new Set(rules)
  for (const jump of jumps)
    if (!there.has(textOf(jump)))
      return `the jump from ${jump.chain} to ${jump.target} is gone (table ${name})`
  for (const chain of chains) {
    const size = sizes.get(chain.name)
    if (size === undefined) return `chain ${chain.name} of table ${name} is gone`
    if (size !== chain.lines.length)
      return `chain ${chain.name} of table ${name} has ${size} rules instead of ${chain.lines.length}`
  }
  return ''
}

/** Input for `iptables-restore --noflush`: chains as a whole, and jumps as needed. */
export const restoreText = (
  tables: readonly RuleTable[],
  repairs: (table: RuleTable) => readonly string[],
): string =>
  tables
    .map(table =>
      [
        `*${table.name}`,
        ...table.chains.map(({ name }) => `:${name} - [0:0]`),
        ...table.chains.flatMap(({ name, lines }) =>
          lines.map(line => `-A ${name} ${line}`),
        ),
        ...repairs(table),
        'COMMIT\n',
      ].join('\n'),
    )
    .join('')
