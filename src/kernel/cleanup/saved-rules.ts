/** One rule as iptables-save prints it. */
export interface SavedRule {
  readonly chain: string
  /** All of it but `-A `. */
  readonly text: string
  /** The chain or target after -j or -g; '' without. */
  readonly target: string
  /** '' without. */
  readonly comment: string
  /** It says nothing but where to go. */
  readonly isBare: boolean
  /** The ipsets it looks at. */
  readonly sets: readonly string[]
}

export interface SavedTable {
  readonly name: string
  readonly builtIn: ReadonlySet<string>
  /** Those that somebody has made. */
  readonly chains: readonly string[]
  readonly rules: readonly SavedRule[]
}

export interface Saved {
  readonly tables: readonly SavedTable[]
  /** Tables that iptables-nft can't read, because nft was used on them. */
  readonly unreadable: readonly string[]
}

interface Growing {
  readonly name: string
  readonly builtIn: Set<string>
  readonly chains: string[]
  readonly rules: SavedRule[]
}

/** Reads what `iptables-save` printed. */
export const parseSaved = (text: string): Saved => {
  const tables: Growing[] = []
  const unreadable: string[] = []
  for (const line of text.split('\n')) {
    const table = tables.at(-1)
    if (line.startsWith('*'))
      tables.push({ name: line.slice(1), builtIn: new Set(), chains: [], rules: [] })
    else if (line.startsWith('-A ')) table?.rules.push(parseRule(line.slice(3)))
    else if (line.startsWith(':')) {
      const [name = '', policy] = line.slice(1).split(' ')
      // A policy is what only built-in chains have.
      if (policy === '-') table?.chains.push(name)
      else table?.builtIn.add(name)
    } else {
      const name = /^# Table `(\w+)' is incompatible/.exec(line)?.[1]
      if (name !== undefined) unreadable.push(name)
    }
  }
  return { tables, unreadable }
}

const parseRule = (text: string): SavedRule => {
  const words: readonly string[] = text.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []
  const after = (flag: string): string => {
    const at = words.indexOf(flag)
    return at === -1 ? '' : (words[at + 1] ?? '')
  }
  const target = after('-j') || after('-g')
  return {
    chain: words[0] ?? '',
    text,
    target,
    comment: after('--comment').replace(/^"(.*)"$/, '$1'),
    isBare: words.length === 3,
    sets: words.flatMap((word, index) =>
      words[index - 1] === '--match-set' ? [word] : [],
    ),
  }
}
