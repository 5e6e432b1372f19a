import { createHash } from 'node:crypto'
import { type IpFamily, joinHostPort } from '../../util/ip.ts'
import { Uses } from '../../kernel/elements/uses.ts'
import type { Chain } from '../../kernel/xtables/wanted.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import type { VipRule } from './vip-rule.ts'
import { type FixedSettings, fixedChains } from './fixed-chains.ts'
import { type Edit, LineRefCounts } from './line-ref-counts.ts'
import { hostBlock, packetKey, prefixMatch } from './packet-key.ts'
import { partName, own, rangesName } from '../../kernel/xtables/capture-names.ts'
import type { Protocol } from '../../model/service.ts'

/** What has to be done in the kernel after some VIPs have changed. */
export interface LayoutChanges {
  readonly newChains: readonly Chain[]
  readonly added: readonly Edit[]
  readonly removed: readonly Edit[]
  readonly oldChains: readonly Chain[]
}

/** Chains that grew beyond this since they were planned are planned anew. */
const mostInChain = 512

/**
 * All of Usher's chains of a family and their lines. Which chain a rule is in is planned
 * once, for all rules of that moment; later ones go where they belong in that plan.
 */
export class Layout {
  readonly lineRefs = new LineRefCounts()
  readonly #plans: Readonly<Record<GroupName, ChainPlan>>
  readonly #rules: Map<string, VipRule>
  readonly #users = new Uses()
  #isOvergrown = false

  private constructor(
    plans: Readonly<Record<GroupName, ChainPlan>>,
    rules: Map<string, VipRule>,
  ) {
    this.#plans = plans
    this.#rules = rules
  }

  static async of(
    rules: Iterable<VipRule>,
    settings: FixedSettings,
    family: IpFamily,
  ): Promise<Layout> {
    const trees = byGroup(() => new PrefixTree())
    const byKey = new Map<string, VipRule>()
    const entries: Entry[] = []
    await forEachYielding(rules, rule => {
      if (byKey.has(rule.key)) return
      byKey.set(rule.key, rule)
      for (const entry of entriesOf(rule)) {
        trees[entry.group].insert(entry.key)
        entries.push(entry)
      }
    })
    const layout = new Layout(byGroup(planOf(trees)), byKey)
    layout.#declareAll(settings, family)
    await forEachYielding(entries, entry => void layout.#add(entry))
    // However it came to be: it is as good as it gets.
    layout.#isOvergrown = false
    return layout
  }

  /** Whether chains have become so long that it is worth planning them anew. */
  get isOvergrown(): boolean {
    return this.#isOvergrown
  }

  get rules(): Iterable<VipRule> {
    return this.#rules.values()
  }

  /** Of `gone` only the keys count: what they stand for is known here. */
  async change(
    gone: readonly VipRule[],
    come: readonly VipRule[],
  ): Promise<LayoutChanges> {
    const edits = { added: new Map<string, Edit>(), removed: new Map<string, Edit>() }
    const chains = new Map<string, Chain>()
    const before = new Set<string>()
    const note = (entry: Entry): void => {
      const { uses } = entry
      if (uses === undefined || chains.has(uses.name)) return
      chains.set(uses.name, uses)
      if (this.#users.has(uses.name)) before.add(uses.name)
    }
    const takeOut = (key: string): void => {
      const rule = this.#rules.get(key)
      if (rule === undefined) return
      this.#rules.delete(key)
      for (const entry of entriesOf(rule)) {
        note(entry)
        const edit = this.#remove(entry)
        if (edit !== undefined) move(edit, edits.added, edits.removed)
      }
    }
    await forEachYielding(gone, ({ key }) => takeOut(key))
    await forEachYielding(come, rule => {
      takeOut(rule.key)
      this.#rules.set(rule.key, rule)
      for (const entry of entriesOf(rule)) {
        note(entry)
        const edit = this.#add(entry)
        if (edit !== undefined) move(edit, edits.removed, edits.added)
      }
    })
    const all = [...chains.values()]
    const isThere = (name: string): boolean => this.#users.has(name)
    return {
      newChains: all.filter(({ name }) => !before.has(name) && isThere(name)),
      added: [...edits.added.values()],
      removed: [...edits.removed.values()],
      oldChains: all.filter(({ name }) => before.has(name) && !isThere(name)),
    }
  }

  #declareAll(settings: FixedSettings, family: IpFamily): void {
    for (const { table, name, lines } of fixedChains(settings, family)) {
      this.lineRefs.declare(table, name)
      for (const line of lines) this.lineRefs.add({ table, chain: name, line })
    }
    for (const name of groupNames) {
      const { table, keys } = groups[name]
      const { root, parts } = this.#plans[name]
      this.lineRefs.declare(table, root)
      for (const part of parts) this.lineRefs.declare(table, part.chain)
      for (const { from, prefix, chain } of parts) {
        const line = `${prefixMatch(prefix, keys, family)} -j ${chain}`
        this.lineRefs.add({ table, chain: from, line })
      }
    }
  }

  /** The edit, if the kernel's rules change by it. */
  #add(entry: Entry): Edit | undefined {
    this.#use(entry.uses)
    const edit = this.#editOf(entry)
    if (!this.lineRefs.add(edit)) return undefined
    if ((this.lineRefs.size(edit.table, edit.chain) ?? 0) > mostInChain)
      this.#isOvergrown = true
    return edit
  }

  #remove(entry: Entry): Edit | undefined {
    const edit = this.#editOf(entry)
    const isGone = this.lineRefs.remove(edit)
    this.#unuse(entry.uses)
    return isGone ? edit : undefined
  }

  #editOf({ group, key, line }: Entry): Edit {
    return { table: groups[group].table, chain: this.#plans[group].chainOf(key), line }
  }

  #use(chain: Chain | undefined): void {
    if (chain === undefined) return
    if (!this.#users.add(chain.name)) return
    this.lineRefs.declare('filter', chain.name)
    for (const line of chain.lines)
      this.lineRefs.add({ table: 'filter', chain: chain.name, line })
  }

  #unuse(chain: Chain | undefined): void {
    if (chain !== undefined && this.#users.remove(chain.name))
      this.lineRefs.drop('filter', chain.name)
  }
}

/** What is taken out and put in again is no change. */
const move = (edit: Edit, from: Map<string, Edit>, to: Map<string, Edit>): void => {
  const id = `${edit.table} ${edit.chain} ${edit.line}`
  if (!from.delete(id)) to.set(id, edit)
}

const byGroup = <T>(make: (name: GroupName) => T): Readonly<Record<GroupName, T>> =>
  Object.fromEntries(groupNames.map(name => [name, make(name)])) as Record<GroupName, T>

const planOf =
  (trees: Readonly<Record<GroupName, PrefixTree>>) =>
  (name: GroupName): ChainPlan => {
    const { root, letter } = groups[name]
    return trees[name].plan(root, number => partName(letter, number))
  }

/** A chain that a longer one sends all packets to whose key begins with `prefix`. */
interface Part {
  readonly from: string
  readonly prefix: string
  readonly chain: string
}

/** Which chain a rule belongs in; holds also for keys that were not there when planned. */
interface ChainPlan {
  /** The chain all packets come to first. */
  readonly root: string
  readonly parts: readonly Part[]
  readonly chainOf: (key: string) => string
}

interface Node {
  /** What all keys below have in common. */
  prefix: string
  /** Of a leaf: all; else those that are not longer than the prefix. */
  keys: string[]
  children: Map<string, Node> | undefined
  chain: string
}

/** A chain of so many rules is looked through in a microsecond or two. */
const mostInLeaf = 64
/** Fewer are not worth a chain and a jump of their own. */
const fewest = 4

/**
 * Spreads rules over chains by what their packets have in common, so that a packet meets
 * some dozens of rules among 50 000, and that a rule is taken out of a short chain:
 * iptables looks for it by comparing all rules of its chain.
 *
 * Keys are texts of digits, the address first; each digit is one step of the tree. The
 * rules of a chain must exclude each other, for the order in it says nothing.
 */
export class PrefixTree {
  #root: Node = { prefix: '', keys: [], children: undefined, chain: '' }

  insert(key: string): void {
    this.#root = insert(this.#root, key)
  }

  /** `nameOf` is asked for the names of the 1st, 2nd... chain besides the root. */
  plan(rootName: string, nameOf: (number: number) => string): ChainPlan {
    const parts: Part[] = []
    const root = this.#root
    const visit = (node: Node): void => {
      for (const [digit, child] of node.children ?? []) {
        if (child.children === undefined && child.keys.length <= fewest) {
          node.children?.delete(digit)
          continue
        }
        child.chain = nameOf(parts.length + 1)
        const prefix = child.prefix.slice(0, node.prefix.length + 1)
        parts.push({ from: node.chain, prefix, chain: child.chain })
        visit(child)
      }
      // Known to the rules from now on; 50 000 keys are not kept twice.
      node.keys = []
    }
    root.chain = rootName
    visit(root)
    return { root: rootName, parts, chainOf: key => find(root, key).chain }
  }
}

const insert = (node: Node, key: string): Node => {
  if (!key.startsWith(node.prefix)) return insertBeside(node, key)
  if (node.children === undefined) {
    if (node.keys.length === 0) node.prefix = key
    node.keys.push(key)
    if (node.keys.length > mostInLeaf) split(node)
  } else if (key.length === node.prefix.length) {
    node.keys.push(key)
  } else {
    const digit = key.charAt(node.prefix.length)
    const child = node.children.get(digit)
    node.children.set(digit, child === undefined ? leaf(key) : insert(child, key))
  }
  return node
}

const leaf = (key: string): Node => ({
  prefix: key,
  keys: [key],
  children: undefined,
  chain: '',
})

const insertBeside = (node: Node, key: string): Node => {
  const prefix = common(node.prefix, key)
  if (node.children === undefined) return insert({ ...node, prefix }, key)
  const digit = node.prefix.charAt(prefix.length)
  const children = new Map([[digit, node]])
  return insert({ prefix, keys: [], children, chain: '' }, key)
}

const split = (node: Node): void => {
  const longer = node.keys.filter(key => key.length > node.prefix.length)
  // Of equal keys nothing can be told apart.
  if (longer.length === 0) return
  node.keys = node.keys.filter(key => key.length === node.prefix.length)
  node.children = new Map()
  for (const key of longer) insert(node, key)
}

const find = (node: Node, key: string): Node => {
  if (node.children === undefined || !key.startsWith(node.prefix)) return node
  const child = node.children.get(key.charAt(node.prefix.length))
  return child === undefined ? node : find(child, key)
}

const common = (a: string, b: string): string => {
  let length = 0
  while (length < a.length && a[length] === b[length]) length++
  return a.slice(0, length)
}

/** The groups of rules that are spread over several chains, and the chain each begins in. */
export const groups = {
  portals: { table: 'nat', root: own.portals, letter: 'P', keys: 'address' },
  nodePorts: { table: 'nat', root: own.nodePorts, letter: 'N', keys: 'port' },
  ofNode: { table: 'nat', root: own.ofNode, letter: 'L', keys: 'address' },
  nodePortsOfNode: { table: 'nat', root: own.nodePortsOfNode, letter: 'M', keys: 'port' },
  policies: { table: 'filter', root: own.begin, letter: 'F', keys: 'port' },
  refused: { table: 'filter', root: own.refused, letter: 'R', keys: 'address' },
  refusedNodePorts: {
    table: 'filter',
    root: own.refusedNodePorts,
    letter: 'Q',
    keys: 'port',
  },
} as const
type GroupName = keyof typeof groups
const groupNames = Object.keys(groups) as readonly GroupName[]

/** One rule of iptables' for a VIP. Equal ones of several VIPs are one rule. */
interface Entry {
  readonly group: GroupName
  readonly key: string
  readonly line: string
  /** A chain in `filter` that rules share and that is there while one of them needs it. */
  readonly uses?: Chain
}

/**
 * What one VIP needs. Who is served is led to its proxy port. Others keep the address, which the
 * filter refuses or drops after the host's own NAT: that may have a use for a node's address and
 * port (k3s#7561), and nothing that the proxy address itself refuses leaves the host. Only of a
 * ClusterIP what is dropped is led to the proxy port, and dropped there: its address is refused.
 */
export const entriesOf = (rule: VipRule): readonly Entry[] => {
  const { kind, address, protocol, port, outside, fromNode } = rule
  const refused = outside === 'reject' && fromNode === 'reject'
  const isClusterIp = kind === 'ClusterIP' && address !== undefined
  const isLed = outside === 'forward' || fromNode === 'forward' || isClusterIp
  const entries: Entry[] = refused || !isLed ? [] : [led(rule), ...policies(rule)]
  // Also for the ports of a ClusterIP that no Service has.
  if (isClusterIp) entries.push(refusedAddress(rule, address))
  else if (outside !== 'forward') {
    const group = address === undefined ? 'refusedNodePorts' : 'refused'
    const dropped: Refusal = { target: 'DROP' }
    const { target, uses } = outside === 'reject' ? refusal(rule.allowedClients) : dropped
    const line = `${destination(rule)}${portMatch(protocol, port, rule.name)} -j ${target}`
    entries.push({ group, key: packetKey(address, protocol, port), line, ...uses })
  }
  return entries
}

/** All clients, or those of the node alone. */
const led = (rule: VipRule): Entry => {
  const { address, protocol, port, name, to, outside, fromNode } = rule
  const target = `DNAT --to-destination ${joinHostPort(to.address, to.port)}`
  const [vips, nodePorts] =
    outside !== 'forward' && fromNode === 'forward'
      ? (['ofNode', 'nodePortsOfNode'] as const)
      : (['portals', 'nodePorts'] as const)
  return {
    group: address === undefined ? nodePorts : vips,
    key: packetKey(address, protocol, port),
    line: `${destination(rule)}${portMatch(protocol, port, name)} -j ${target}`,
  }
}

/** At the proxy port; the VIPs that share one have one policy. */
const policies = (rule: VipRule): readonly Entry[] => {
  const { protocol, to, name, allowedClients, outside, fromNode } = rule
  const entry = (target: string): Entry => ({
    group: 'policies',
    key: packetKey(undefined, protocol, to.port),
    line: `${portMatch(protocol, to.port, name)} -j ${target}`,
  })
  const entries: Entry[] = []
  if (allowedClients !== undefined) {
    const uses = rangesChain('S', allowedClients, 'RETURN')
    entries.push({ ...entry(uses.name), uses })
  }
  if (outside !== 'forward' && fromNode !== 'forward') entries.push(entry('DROP'))
  return entries
}

const refusedAddress = ({ family }: VipRule, address: string): Entry => ({
  group: 'refused',
  key: packetKey(address),
  line: `-d ${hostBlock(address, family)} -j ${own.reject}`,
})

interface Refusal {
  readonly target: string
  readonly uses?: { readonly uses: Chain }
}

/** Clients outside of the ranges are not even refused. */
const refusal = (ranges: readonly string[] | undefined): Refusal => {
  if (ranges === undefined) return { target: own.reject }
  const chain = rangesChain('T', ranges, own.reject)
  return { target: chain.name, uses: { uses: chain } }
}

const rangesChain = (
  letter: string,
  ranges: readonly string[],
  inside: string,
): Chain => {
  const sorted = ranges.toSorted()
  const hash = createHash('sha256').update(sorted.join(' ')).digest('hex').slice(0, 12)
  const lines = sorted.map(range => `-s ${range} -j ${inside}`)
  return { name: rangesName(letter, hash), lines: [...lines, '-j DROP'] }
}

const destination = ({ address, family }: VipRule): string =>
  address === undefined ? '' : `-d ${hostBlock(address, family)} `

const portMatch = (protocol: Protocol, port: number, name: string): string => {
  const low = protocol.toLowerCase()
  return `-p ${low} -m comment --comment "${safe(name)}" -m ${low} --dport ${port}`
}

/** One line and no quotes, whatever it was; xt_comment takes 255 bytes. */
const safe = (name: string): string => name.replaceAll(/[^\w./:-]/g, '_').slice(0, 255)
