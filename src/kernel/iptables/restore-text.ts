import {
  isServiceChain,
  kubeletDropChain,
  kubeletFirewall,
  iptablesChains,
} from '../xtables/kube-chains.ts'
import { jumpRepairs } from '../xtables/jumps.ts'
import { chainLines, tableText } from '../xtables/restore-text.ts'
import type { SavedTable } from '../xtables/saved.ts'
import { type Chain, type TableName, textOf } from '../xtables/wanted.ts'
import { editLines } from './edits.ts'
import type { FullRules } from './full-rules.ts'
import { kubeletJumps, localnetRule, mayBeThere } from './jumps.ts'
import { iptablesOwner } from './names.ts'
import type { RulesetChanges } from './ruleset-state.ts'
import type { Backend } from '../xtables/backend.ts'
import { chainsNow, outerChains, tableNow } from '../xtables/table-now.ts'
import { ToolError } from '../run-tool.ts'

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
      ...jumpRepairs(rules.jumps.nat, saved.nat, iptablesOwner),
      ...stale.deleted.map(chain => `-X ${chain}`),
    ],
  }
  return [
    await section('mangle', { chains: rules.mangle }),
    await section('filter', {
      chains: filter,
      rest: [
        ...kubelets.flatMap(chain => kubeletLines(chain, saved.filter)),
        ...jumpRepairs(rules.jumps.filter, saved.filter, iptablesOwner),
      ],
    }),
    await natSections(nat, together),
  ].join('')
}

/** The same for some changes; '' for none. */
export const changesRestore = async (
  { filter, nat, edits, gone }: RulesetChanges,
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
  const [mark, last] = apart(shared, name => name === iptablesChains.markMasq)
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

const section = (
  table: string,
  { chains, emptied = [], rest = [] }: Section,
): Promise<string> => {
  const names = [...chains.map(({ name }) => name), ...emptied]
  return tableText(table, lastFirst(names), chainLines(chains, rest))
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
  const all = lines.map(line => textOf({ chain: name, line }))
  return [
    ...(saved.chains.has(name) ? [] : [`-N ${name}`]),
    ...all.filter(text => !has.has(text)).map(text => `-A ${text}`),
  ]
}

/** The rule against packets from elsewhere to 127.0.0.0/8 where it is not there; '' else. */
const localnetRestore = (saved: SavedTable): Promise<string> => {
  const has = new Set(saved.rules.map(({ text }) => text))
  const jumps = kubeletJumps.map(textOf).filter(text => !has.has(text))
  return tableText(
    'filter',
    [],
    [
      ...kubeletLines({ name: kubeletFirewall, lines: [localnetRule] }, saved),
      ...jumps.map(text => `-I ${text}`),
    ],
  )
}

/**
 * Keeps packets from elsewhere away from 127.0.0.0/8, which is to be done before
 * route_localnet is set (CVE-2020-8558), for a caller that writes no other rules. What else is in
 * the chain stays; one that has the rule is left as it is.
 */
export const guardLocalnet = async (backend: Backend): Promise<void> => {
  const saved = await tableNow(backend, 'filter', iptablesOwner, mayBeThere.filter)
  const text = await localnetRestore(saved)
  if (text !== '') await backend.restore(text)
}

export type Saved = Readonly<Record<TableName, SavedTable>>

/**
 * What is there of both tables. With `known`, the chains of many Services that this process has
 * written itself, only the chains that others put rules into are read: iptables-nft-save
 * takes 4 s for the rules of 10 000 Services, and this 20 ms; of few it is one process, and this several.
 */
export const tablesThere = async (
  backend: Backend,
  known: Iterable<string> | undefined,
): Promise<Saved> => {
  const shown = (table: TableName, chains: Iterable<string>): Promise<SavedTable> =>
    chainsNow(backend, table, iptablesOwner, {
      chains: outerChains[table] ?? [],
      jumps: mayBeThere[table],
      known: chains,
    })
  const saved = (table: TableName): Promise<SavedTable> =>
    tableNow(backend, table, iptablesOwner, mayBeThere[table])
  if (known !== undefined) {
    try {
      return { filter: await shown('filter', []), nat: await shown('nat', known) }
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
    }
  }
  const [filter, nat] = await Promise.all([saved('filter'), saved('nat')])
  return { filter, nat }
}

/** Chains of nat that no ServicePort of now needs. */
interface StaleChains {
  readonly emptied: readonly string[]
  /** Some of them; a rule of another program may lead to the rest. */
  readonly deleted: readonly string[]
}

/**
 * Those of Services and endpoints that are gone, KUBE-XLB- of the layout up to 1.23, and
 * KUBE-MARK-DROP where kube-proxy made it: without a rule. With one it is the kubelet's.
 */
const staleChains = (
  { chains, rules, partial }: SavedTable,
  isWanted: (chain: string) => boolean,
): StaleChains => {
  const led = new Set(rules.map(({ target }) => target))
  const stale = [...chains.keys()].filter(
    chain => isServiceChain(chain) && !isWanted(chain),
  )
  const mine = (chain: string): boolean =>
    !led.has(chain) && rules.every(rule => rule.chain !== chain)
  const drop =
    chains.has(kubeletDropChain) && mine(kubeletDropChain) ? [kubeletDropChain] : []
  const emptied = [...stale, ...drop]
  // A rule that can't be read may lead there, and one chain that stays would cost all others.
  const deleted = partial === undefined ? emptied.filter(chain => !led.has(chain)) : []
  return { emptied, deleted }
}
