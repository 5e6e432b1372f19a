import { isUnsupported, ToolError } from '../run-tool.ts'
import { type Backend, hasTable, isVerdict } from './backend.ts'
import {
  fixedChainNames,
  kubeletDropChain,
  kubeletFirewall,
  type Owner,
} from './kube-chains.ts'
import { chainNames, rulesByNft } from './nft-rules.ts'
import { tableText } from './restore-text.ts'
import { parseRule, readTable, type SavedRule, type SavedTable } from './saved.ts'
import { type Jump, textOf } from './wanted.ts'

/** Milliseconds for reading a table of 100 000 rules. */
const timeoutMs = 300_000

/** Chains from which others' rules may lead into an owner's: the kernel's, and the kubelet's. */
export const outerChains: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT', kubeletFirewall],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING', kubeletDropChain],
}

const isBuiltIn = (chain: string): boolean => !chain.startsWith('KUBE-')

/**
 * What is there of one table. Where nft was used on it `iptables-save` lists nothing, and
 * exits with 0; its chains are looked at one by one then. `jumps`: those there may be, of any
 * mode. Rejects with ToolError when it can't be read now, which says nothing of what is there.
 */
export const tableNow = async (
  backend: Backend,
  name: string,
  owner: Owner,
  jumps: readonly Jump[],
): Promise<SavedTable> => {
  const text = await listed(backend, name)
  if (text !== undefined) return readTable(text, name, owner)
  const own = (await chainNames(backend, name)) ?? (await reached(backend, name, jumps))
  const chains = outerChains[name] ?? []
  const known = own.filter(chain => !chains.includes(chain))
  const table = await chainsNow(backend, name, owner, { chains, jumps, known, all: true })
  return { partial: unlisted, ...table }
}

/** Where there is no nft to list all: the own chains that packets may come to. */
const reached = async (
  backend: Backend,
  name: string,
  jumps: readonly Jump[],
): Promise<readonly string[]> => {
  const found = new Set<string>()
  let fresh: readonly string[] = [
    ...fixedChainNames,
    ...jumps.map(({ target }) => target),
  ]
  while (fresh.length > 0) {
    const text = await shown(backend, name, fresh)
    for (const [, chain = ''] of text.matchAll(/^-N (\S+)/gm)) found.add(chain)
    const targets = Array.from(text.matchAll(/ -[jg] (KUBE-\S+)/g), ([, to = '']) => to)
    fresh = [...new Set(targets)].filter(chain => !found.has(chain))
  }
  return [...found]
}

/** Of a table in which iptables can read all that Usher's own are led to by. */
export const unlisted: NonNullable<SavedTable['partial']> = { unreadable: [], unsure: [] }

/** Undefined when iptables can't list it because nft was used on it. */
export const listed = async (
  backend: Backend,
  name: string,
): Promise<string | undefined> => {
  if (!(await hasTable(backend, name))) return ''
  try {
    const text = await backend.save(name, { timeoutMs })
    if (/^# Table `\w+' is incompatible/m.test(text)) return undefined
    if (text.trim() === '' || text.includes('\nCOMMIT\n')) return text
  } catch (error) {
    if (isUnsupported(error)) return ''
    // Of other rules of nft's iptables-nft says that it can't parse them.
    if (backend.mode === 'nft' && isVerdict(error)) return undefined
    throw error
  }
  throw new ToolError(`table ${name} could not be read to its end`, 'failed', '')
}

export interface Asked {
  /** Of the owner (also as `NAME NUMBER`, for one rule of it) or of others. */
  readonly chains: readonly string[]
  readonly jumps: readonly Jump[]
  /** More that are there, and need not be read. */
  readonly known?: Iterable<string>
  /** Also what there is besides `jumps`, whatever it costs. */
  readonly all?: boolean
}

/**
 * Some chains of one table, mostly by one process that reads no others. One of the owner's that
 * is missing in the result is gone, or has rules that are not the owner's. Of others' chains
 * that iptables can't read `jumps` are asked for, one by one.
 */
export const chainsNow = async (
  backend: Backend,
  name: string,
  owner: Owner,
  { chains, jumps, known = [], all = false }: Asked,
): Promise<SavedTable> => {
  const declared = Array.from(known, chain => `:${chain} - [0:0]`)
  const text = await shown(backend, name, chains)
  const table = await readTable([...declared, text].join('\n'), name, owner)
  const hidden = chains.filter(
    chain =>
      outerChains[name]?.includes(chain) === true &&
      !table.builtIn.has(chain) &&
      !table.chains.has(chain),
  )
  // The kernel's own are there in any case.
  const names = hidden.every(isBuiltIn) ? hidden : await chainNames(backend, name)
  const there = hidden.filter(
    chain => isBuiltIn(chain) || names?.includes(chain) === true,
  )
  const hiddenChains: HiddenChain[] = []
  for (const chain of there)
    hiddenChains.push(await hiddenChain(backend, name, chain, jumps, all))
  if (hiddenChains.length === 0) return table
  const made = there.filter(chain => !isBuiltIn(chain)).map(chain => [chain, 1] as const)
  return {
    name,
    builtIn: new Set([...table.builtIn, ...there]),
    chains: new Map([...table.chains, ...made]),
    rules: [...table.rules, ...hiddenChains.flatMap(({ rules }) => rules)],
    partial: {
      unreadable: there,
      unsure: hiddenChains.filter(({ isSure }) => !isSure).map(({ chain }) => chain),
    },
  }
}

/**
 * What `iptables -S` prints of those chains that it can show. It ends at the first that is
 * missing, or has rules of nft's, and does not say which of the two.
 */
export const shown = async (
  backend: Backend,
  table: string,
  chains: readonly string[],
): Promise<string> => {
  const input = await tableText(
    table,
    [],
    chains.map(chain => `-S ${chain}`),
  )
  try {
    return input === '' ? '' : await backend.restore(input, { timeoutMs })
  } catch (error) {
    if (!isVerdict(error)) throw error
    const [first = '', second] = chains
    if (second === undefined) {
      if (backend.mode === 'legacy' && isBuiltIn(first)) throw error
      return ''
    }
    const middle = Math.ceil(chains.length / 2)
    const halves = [chains.slice(0, middle), chains.slice(middle)]
    const texts: string[] = []
    for (const half of halves) texts.push(await shown(backend, table, half))
    return texts.join('')
  }
}

/** A chain of others that iptables can't show. */
interface HiddenChain {
  readonly chain: string
  readonly rules: readonly SavedRule[]
  /** Whether there are no other jumps in it. */
  readonly isSure: boolean
}

/** `iptables -C` says of a jump whether it is there, unless it comes after a rule that it can't parse. */
const hiddenChain = async (
  backend: Backend,
  table: string,
  chain: string,
  jumps: readonly Jump[],
  all: boolean,
): Promise<HiddenChain> => {
  const texts = jumps.filter(jump => jump.chain === chain).map(textOf)
  const read = all ? await rulesByNft(backend, table, chain, jumps) : undefined
  const found = new Set(read?.map(({ text }) => text))
  const asked: SavedRule[] = []
  let isSure = true
  const rest = texts.filter(each => !found.has(each))
  const together = await isThere(backend, table, rest)
  const isDecided = together === true || rest.length === 1
  for (const text of rest) {
    const answer = isDecided ? together : await isThere(backend, table, [text])
    if (answer === true) asked.push(parseRule(text))
    isSure &&= answer !== undefined
  }
  if (!isSure && !all) return hiddenChain(backend, table, chain, jumps, true)
  const isKnown = isSure || read !== undefined
  return { chain, rules: [...(read ?? []), ...asked], isSure: isKnown }
}

/** Undefined when it can't be told. */
const isThere = async (
  backend: Backend,
  table: string,
  rules: readonly string[],
): Promise<boolean | undefined> => {
  const asked = rules.map(rule => `-C ${rule}`)
  try {
    if (rules.length > 0) await backend.restore(await tableText(table, [], asked))
    return true
  } catch (error) {
    if (!isVerdict(error)) throw error
    const isMissing = /bad rule|matching rule|does not exist|no chain/i
    return isMissing.test(`${error.message} ${error.stderr}`) ? false : undefined
  }
}
