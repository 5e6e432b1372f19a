import { randomInt } from 'node:crypto'
import { type RunTool, ToolError } from '../run-tool.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import type { ElementChanges } from '../elements/element-changes.ts'

/** What a transaction does besides what its text says to nft. */
export interface Effect {
  /** How the sets grow. */
  readonly elements?: ElementChanges
  /** The table is made anew: there was no element in it. */
  readonly isWhole?: boolean
  /** Nothing changes but elements of sets. */
  readonly isElementsOnly?: boolean
  /** Rules go that look into sets which stay: a monitor shows no more changes of those. */
  readonly hidesSets?: boolean
}

/**
 * One table that Usher writes by nft, each change by one transaction, with what a watch must
 * know to tell changes of other programs from its own. It has a set `stamp` of type `mark`.
 */
export class OwnTable {
  /** `ip usher`. */
  readonly name: string
  readonly #run: RunTool
  readonly #stamps = new Stamps()
  readonly #onChange = new Set<(effect: Effect) => void>()
  readonly #sizes = new Map<string, number>()
  #isPlaced = false
  #era = 0
  #writes = 0

  constructor(run: RunTool, name: string) {
    this.#run = run
    this.name = name
  }

  /** Whether the table is in the kernel as it was last written; not during a change. */
  get isPlaced(): boolean {
    return this.#isPlaced
  }

  /** Another number after each change of chains or sets. */
  get era(): number {
    return this.#era
  }

  /** Another number after each change. */
  get writes(): number {
    return this.#writes
  }

  /** How many elements the sets have that ever had any, and how many rules each `chain NAME`. */
  get sizes(): ReadonlyMap<string, number> {
    return this.#sizes
  }

  /** Whether a transaction with this stamp was its own; true once. */
  isOwn(stamp: string): boolean {
    return this.#stamps.take(stamp)
  }

  /** Calls after each change of chains or sets; until the returned function is called. */
  onChange(callback: (effect: Effect) => void): () => void {
    this.#onChange.add(callback)
    return () => this.#onChange.delete(callback)
  }

  /**
   * One transaction of these commands; several, in their order, where the kernel takes no more
   * at once. Rejects with ToolError.
   */
  async write(parts: readonly string[], effect: Effect = {}): Promise<void> {
    const { elements, isWhole = false, isElementsOnly = false } = effect
    this.#isPlaced = false
    this.#writes++
    if (!isElementsOnly) this.#era++
    await this.#write(parts)
    if (isWhole) this.#sizes.clear()
    if (!isElementsOnly) await this.#countRules(parts)
    for (const [name, growth] of elements?.growth() ?? [])
      this.#sizes.set(name, (this.#sizes.get(name) ?? 0) + growth)
    this.#isPlaced = true
    if (!isElementsOnly) for (const callback of this.#onChange) callback(effect)
  }

  async #countRules(parts: readonly string[]): Promise<void> {
    for (const part of parts.filter(text => !/^(?:add|delete) element/.test(text))) {
      const sizes = part.includes('\n\tchain ') ? await listedSizes(part) : []
      for (const [name, size] of sizes)
        if (name.startsWith('chain ')) this.#sizes.set(name, size)
      for (const [, what, chain] of part.matchAll(ruleCommand)) {
        const name = `chain ${chain}`
        if (what === 'delete chain') this.#sizes.delete(name)
        else if (what === 'flush chain') this.#sizes.set(name, 0)
        else this.#sizes.set(name, (this.#sizes.get(name) ?? 0) + 1)
      }
    }
  }

  /** In a user namespace a socket has no more room than net.core.wmem_max says. */
  async #write(parts: readonly string[]): Promise<void> {
    try {
      await this.#transact(parts.join(''))
    } catch (error) {
      const isTooLong = error instanceof ToolError && /too long/i.test(error.stderr)
      if (!isTooLong) throw error
      for (const text of inSmallTransactions(parts)) await this.#transact(text)
    }
  }

  async #transact(text: string): Promise<void> {
    const set = `${this.name} stamp`
    const stamp = `flush set ${set}\nadd element ${set} { ${this.#stamps.next()} }\n`
    await this.#run('nft', ['-f', '-'], { input: text + stamp, timeoutMs })
  }
}

const ruleCommand = /^(add rule|flush chain|delete chain) \S+ \S+ (\S+)/gm

/**
 * How many elements each set and map has in a table as `nft list table` writes it, and how many rules
 * each `chain NAME`.
 */
export const listedSizes = async (text: string): Promise<ReadonlyMap<string, number>> => {
  const sizes = new Map<string, number>()
  let part = ''
  let within = false
  await forEachYielding(text.matchAll(/[^\n]+/g), ([line]) => {
    const [, kind, name] = /^\t(set|map|chain) (\S+) \{/.exec(line) ?? []
    if (name !== undefined) {
      part = kind === 'chain' ? `chain ${name}` : name
      sizes.set(part, 0)
    }
    const isRule =
      part.startsWith('chain ') && /^\t\t(?!\t|type |comment "[^"]*"$)/.test(line)
    if (isRule) sizes.set(part, (sizes.get(part) ?? 0) + 1)
    within ||= line.startsWith('\t\telements = {')
    if (!within) return
    // Each element but the last is followed by a comma.
    const last = line.endsWith('}') ? 1 : 0
    sizes.set(part, (sizes.get(part) ?? 0) + line.split(',').length - 1 + last)
    within = last === 0
  })
  return sizes
}

/** Characters; what nft makes of them has some times as many bytes, of the 400 kB that go through. */
const smallTransaction = 65_536

const inSmallTransactions = (parts: readonly string[]): readonly string[] => {
  const inputs: string[] = []
  let input = ''
  for (const part of parts) {
    if (input !== '' && input.length + part.length > smallTransaction) {
      inputs.push(input)
      input = ''
    }
    input += part
  }
  return [...inputs, input]
}

/** Milliseconds. Where each Service has a map of its own, 20 000 of them take minutes. */
const timeoutMs = 300_000

/**
 * More than a monitor is ever behind: of a change in small transactions they are hundreds. Older
 * ones are of transactions that failed.
 */
const mostStamps = 4096

/**
 * A number of its own in each of Usher's transactions, by which `nft monitor` shows whose
 * it was. The process id that is shown is the host's, which a process in a container
 * does not know of itself or its children.
 */
class Stamps {
  readonly #issued = new Set<string>()

  /** As nft reads and writes it. */
  next(): string {
    const stamp = `0x${randomInt(1, 2 ** 32)
      .toString(16)
      .padStart(8, '0')}`
    this.#issued.add(stamp)
    const [oldest] = this.#issued
    if (oldest !== undefined && this.#issued.size > mostStamps)
      this.#issued.delete(oldest)
    return stamp
  }

  /** Whether it is Usher's; once, for a restored backup brings old ones back. */
  take(stamp: string): boolean {
    return this.#issued.delete(stamp)
  }
}
