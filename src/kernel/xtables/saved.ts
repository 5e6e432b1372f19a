import { forEachYielding } from '../../util/list-diff.ts'
import type { Owner } from './kube-chains.ts'

/** One rule as iptables-save prints it. */
export interface SavedRule {
  readonly chain: string
  /** All of it but `-A `; `-D` takes it too. */
  readonly text: string
  /** The chain or target after -j or -g; '' without. */
  readonly target: string
  /** '' without. */
  readonly comment: string
  /** It says nothing but where to go. */
  readonly isBare: boolean
  /** The ipsets it looks at. */
  readonly sets: readonly string[]
  /** nft's number of it; of a rule that only nft can read, whose `text` is not the whole of it. */
  readonly handle?: number
}

export interface SavedTable {
  readonly name: string
  readonly builtIn: ReadonlySet<string>
  /** All others, each with how many rules it has. */
  readonly chains: ReadonlyMap<string, number>
  /** In the kernel's order; those that the reader asked for. */
  readonly rules: readonly SavedRule[]
  /** Set where iptables can't list it: what of it is not known, besides others' own chains. */
  readonly partial?: {
    /** Chains with rules that iptables can't read. */
    readonly unreadable: readonly string[]
    /** Those of them that may have more of the owner's jumps than `rules` says. */
    readonly unsure: readonly string[]
  }
}

/**
 * Reads one table, as `iptables-save -t TABLE` or `iptables -S CHAIN` prints it. Of the rules
 * only others' that may lead into chains of the owner: a table may have 100 000 lines.
 */
export const readTable = async (
  text: string,
  name: string,
  owner: Owner,
): Promise<SavedTable> => {
  const builtIn = new Set<string>()
  const chains = new Map<string, number>()
  const rules: SavedRule[] = []
  await forEachYielding(linesOf(text), line => {
    if (line.startsWith('-A ')) {
      const end = line.indexOf(' ', 3)
      const chain = end < 0 ? line.slice(3) : line.slice(3, end)
      if (!builtIn.has(chain)) chains.set(chain, (chains.get(chain) ?? 0) + 1)
      if (line.includes(' KUBE-') && !owner.hasChain(name, chain))
        rules.push(parseRule(line.slice(3)))
      return
    }
    const [, chain, policy = ''] = /^(?::|-[NP] )(\S+) ?(\S*)/.exec(line) ?? []
    // A policy is what only built-in chains have.
    if (chain === undefined) return
    if (policy === '' || policy === '-') chains.set(chain, 0)
    else builtIn.add(chain)
  })
  return { name, builtIn, chains, rules }
}

export const parseRule = (text: string): SavedRule => {
  const tokens: readonly string[] = text.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []
  const after = (flag: string): string => {
    const at = tokens.indexOf(flag)
    return at === -1 ? '' : (tokens[at + 1] ?? '')
  }
  const target = after('-j') || after('-g')
  return {
    chain: tokens[0] ?? '',
    text,
    target,
    comment: after('--comment').replace(/^"(.*)"$/, '$1'),
    isBare: tokens.length === 3,
    sets: tokens.flatMap((token, index) =>
      tokens[index - 1] === '--match-set' ? [token] : [],
    ),
  }
}

/** The lines of a text, one by one, without making all of them at once. */
function* linesOf(text: string): Generator<string> {
  let start = 0
  while (start < text.length) {
    const end = text.indexOf('\n', start)
    yield text.slice(start, end < 0 ? text.length : end)
    if (end < 0) return
    start = end + 1
  }
}
