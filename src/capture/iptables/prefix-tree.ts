/** A chain that a longer one sends all packets to whose key begins with `prefix`. */
export interface Part {
  readonly from: string
  readonly prefix: string
  readonly chain: string
}

/** Which chain a rule belongs in; holds also for keys that were not there when planned. */
export interface ChainPlan {
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

  /** `partName` is asked for the names of the 1st, 2nd... chain besides the root. */
  plan(rootName: string, partName: (number: number) => string): ChainPlan {
    const parts: Part[] = []
    const root = this.#root
    const visit = (node: Node): void => {
      for (const [digit, child] of node.children ?? []) {
        if (child.children === undefined && child.keys.length <= fewest) {
          node.children?.delete(digit)
          continue
        }
        child.chain = partName(parts.length + 1)
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
