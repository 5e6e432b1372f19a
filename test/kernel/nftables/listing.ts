/** A table as `nft list table` has it. */
export interface Listing {
  readonly chains: ReadonlyMap<string, ListedChain>
  readonly sets: ReadonlyMap<string, ListedSet>
}

interface ListedChain {
  /** `type nat hook output priority dstnat; policy accept;`; '' when none leads there by itself. */
  hook: string
  readonly rules: string[]
}

interface ListedSet {
  /** All of its lines but the elements. */
  readonly definition: string[]
  elements: readonly string[]
}

export const parseListing = (text: string): Listing => {
  const chains = new Map<string, ListedChain>()
  const sets = new Map<string, ListedSet>()
  // An element that packets have put in says how long it has to stay.
  const joined = text.replaceAll(/,\n\s+/g, ', ')
  let set: ListedSet | undefined
  let chain: ListedChain | undefined
  for (const line of joined.split('\n')) {
    const [, kind, name] = /^\t(\w+) (\S+) \{$/.exec(line) ?? []
    if (kind !== undefined && name !== undefined) {
      set = kind === 'chain' ? undefined : { definition: [kind], elements: [] }
      chain = kind === 'chain' ? { hook: '', rules: [] } : undefined
      if (set !== undefined) sets.set(name, set)
      if (chain !== undefined) chains.set(name, chain)
      continue
    }
    const inner = line.trim()
    if (!line.startsWith('\t\t')) continue
    const elements = /^elements = \{ (.*) \}$/.exec(inner)?.[1]
    if (set !== undefined && elements !== undefined)
      set.elements = elements.split(', ').toSorted()
    else if (set !== undefined) set.definition.push(inner)
    else if (chain !== undefined && /^type \w+ hook /.test(inner)) chain.hook = inner
    else chain?.rules.push(inner)
  }
  return { chains, sets }
}

const lead = /\b(goto|jump) ([^\s,}]+)/g
const lookedUp = /@(affinity-[^\s]+)/g

/** What can be reached from a base chain or from an element, whatever it is called. */
export interface Meaning {
  /** Sorted lines; two tables that do the same have the same. */
  readonly lines: readonly string[]
  /** Chains and sets that nothing leads to. */
  readonly stale: readonly string[]
}

/** With each chain written out where something leads to it. */
export const meaningOf = ({ chains, sets }: Listing): Meaning => {
  const isAffinity = (name: string): boolean => name.startsWith('affinity-')
  const texts = new Map<string, string>()
  const reached = new Set<string>()
  const expanded = (name: string): string => {
    reached.add(name)
    const known = texts.get(name)
    if (known !== undefined) return known
    const rules = chains.get(name)?.rules ?? [`nothing is called ${name}`]
    const text = `{ ${rules.map(inlined).join(' ; ')} }`
    texts.set(name, text)
    return text
  }
  const inlined = (text: string): string =>
    text.replaceAll(lead, (_, verb: string, name: string) => `${verb} ${expanded(name)}`)
  const users = new Map<string, string[]>()
  /** A set that packets fill is who looks it up, and not its name. */
  const anonymous = (user: string, text: string): string => {
    for (const [, name = ''] of text.matchAll(lookedUp)) {
      const all = users.get(name) ?? []
      users.set(name, all)
      if (!all.includes(user)) all.push(user)
    }
    return text.replaceAll(lookedUp, '@remembered')
  }
  const lines: string[] = []
  for (const [name, { hook, rules }] of chains) {
    if (hook === '') continue
    reached.add(name)
    lines.push(`${name}: ${hook}`)
    for (const [at, rule] of rules.entries())
      lines.push(`${name}, ${at}: ${anonymous(name, inlined(rule))}`)
  }
  for (const [name, { definition, elements }] of sets) {
    if (isAffinity(name) || name === 'stamp') continue
    lines.push(`${name}: ${definition.join(' ')}`)
    for (const element of elements) {
      const user = `${name} ${element.replace(/ : .*/, '')}`
      lines.push(`${name}: ${anonymous(user, inlined(element))}`)
    }
  }
  for (const [name, by] of users) {
    const { definition } = sets.get(name) ?? { definition: ['is not there'] }
    const exits = new Set<string>()
    for (const text of texts.values())
      for (const [, exit = ''] of text.matchAll(
        new RegExp(
          `update @${name.replaceAll(/[./]/g, String.raw`\$&`)} [^;]*; ([^;}]*)`,
          'g',
        ),
      ))
        exits.add(exit.trim())
    lines.push(
      `remembered: ${definition.join(' ')} for ${by.toSorted().join(', ')}, ${[...exits].join()}`,
    )
  }
  const stale = [
    ...[...chains.keys()]
      .filter(name => !reached.has(name) && !name.startsWith('layout-'))
      .map(name => `chain ${name}`),
    ...[...sets.keys()]
      .filter(name => isAffinity(name) && !users.has(name))
      .map(name => `set ${name}`),
  ]
  return { lines: lines.toSorted(), stale }
}
