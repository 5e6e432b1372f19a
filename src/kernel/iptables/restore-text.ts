import { forEachYielding } from '../../util/yielding.ts'
import { type Chain, editLines, emptied, type TableName } from './chain.ts'
import type { FullRules } from './full-rules.ts'
import { jumpRepairs } from './jumps.ts'
import { isServiceChain, kubeletFirewall, named } from './names.ts'
import type { BookChanges } from './rule-book.ts'
import { type SavedTable, staleChains } from './saved.ts'

export type Saved = Readonly<Record<TableName, SavedTable>>

/**
 * Input for `iptables-restore --noflush` that makes all of kube-proxy's chains what they
 * have to be; a chain is emptied and filled in one transaction. `together` is how many
 * chains of nat one transaction may have.
 */
export const fullRestore = async (
  rules: FullRules,
  saved: Saved,
  together: number,
): Promise<string> => {
  const wanted = new Set(rules.nat.map(({ name }) => name))
  const stale = staleChains(saved.nat, chain => wanted.has(chain))
  const [kubelets, filter] = apart(rules.filter, name => name === kubeletFirewall)
  const nat = {
    chains: rules.nat,
    emptied: stale.emptied,
    rest: [
      ...jumpLines(rules, 'nat', saved.nat),
      ...stale.deleted.map(chain => `-X ${chain}`),
    ],
  }
  return [
    await section('mangle', { chains: rules.mangle }),
    await section('filter', {
      chains: filter,
      rest: [
        ...kubelets.flatMap(chain => kubeletLines(chain, saved.filter)),
        ...jumpLines(rules, 'filter', saved.filter),
      ],
    }),
    await natSections(nat, together),
  ].join('')
}

/** The same for some changes; '' for none. */
export const changesRestore = async (
  { filter, nat, edits, gone }: BookChanges,
  together: number,
): Promise<string> => {
  const linesIn = (table: TableName): readonly string[] =>
    edits.filter(edit => edit.table === table).flatMap(editLines)
  // What leads to a chain that goes is emptied, or taken out, before that is deleted.
  const rest = [...linesIn('nat'), ...gone.map(chain => `-X ${chain}`)]
  return [
    await section('filter', { chains: filter, rest: linesIn('filter') }),
    await natSections({ chains: nat, emptied: gone, rest }, together),
  ].join('')
}

/**
 * One transaction, or several when there are many chains: those that are led to come
 * before those that lead there, and what packets come to first, last. Each leaves rules
 * that are whole: what a chain of this name does has not changed, or it has all at once.
 */
const natSections = async (all: Section, together: number): Promise<string> => {
  const [own, shared] = apart(all.chains, isServiceChain)
  if (own.length <= together) return section('nat', all)
  const [mark, last] = apart(shared, name => name === named.markMasq)
  const first = [...mark, ...own.toReversed()]
  const texts: string[] = []
  for (let at = 0; at < first.length; at += together)
    texts.push(await section('nat', { chains: first.slice(at, at + together) }))
  texts.push(await section('nat', { ...all, chains: last }))
  return texts.join('')
}

interface Section {
  readonly chains: readonly Chain[]
  /** Names of chains that have no rules. */
  readonly emptied?: readonly string[]
  readonly rest?: readonly string[]
}

const section = async (
  table: string,
  { chains, emptied: empty = [], rest = [] }: Section,
): Promise<string> => {
  if (chains.length + empty.length + rest.length === 0) return ''
  const names = [...chains.map(({ name }) => name), ...empty]
  let [heads, lines] = ['', '']
  await forEachYielding(lastFirst(names), name => {
    heads += `${emptied(name)}\n`
  })
  await forEachYielding(chains, ({ name, lines: all }) => {
    for (const line of all) lines += `-A ${name} ${line}\n`
  })
  for (const line of rest) lines += `${line}\n`
  return `*${table}\n${heads}${lines}COMMIT\n`
}

/**
 * iptables-nft-restore 1.8 goes through a sorted list, from its start, to find a new
 * chain's place: 30 000 chains take it 6 s backwards, 75 s in any order.
 */
const lastFirst = (names: readonly string[]): readonly string[] =>
  names.toSorted().toReversed()

const apart = (
  chains: readonly Chain[],
  isFirst: (name: string) => boolean,
): readonly [first: readonly Chain[], second: readonly Chain[]] => [
  chains.filter(({ name }) => isFirst(name)),
  chains.filter(({ name }) => !isFirst(name)),
]

/** The kubelet's chain is not emptied: it gets what it doesn't have. */
const kubeletLines = ({ name, lines }: Chain, saved: SavedTable): readonly string[] => {
  const has = new Set(saved.rules.map(({ text }) => text))
  const all = lines.map(line => `${name} ${line}`)
  return [
    ...(saved.chains.has(name) ? [] : [`-N ${name}`]),
    ...all.filter(text => !has.has(text)).map(text => `-A ${text}`),
  ]
}

const jumpLines = (
  { jumps }: FullRules,
  table: TableName,
  { rules, builtIn }: SavedTable,
): readonly string[] =>
  jumpRepairs(
    jumps,
    table,
    rules.filter(({ chain }) => builtIn.has(chain)),
  )
