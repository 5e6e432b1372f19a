import type { TableName } from '../../kernel/xtables/wanted.ts'

/** One line more or less in a chain. */
export interface Edit {
  readonly table: TableName
  readonly chain: string
  readonly line: string
}

/**
 * What Usher has in the kernel's chains: each line once, however many VIPs need it.
 */
export class Ledger {
  readonly #tables: Readonly<Record<TableName, Map<string, Map<string, number>>>> = {
    filter: new Map(),
    nat: new Map(),
  }

  /** A chain may be empty; declaring it again changes nothing. */
  declare(table: TableName, chain: string): void {
    const chains = this.#tables[table]
    if (!chains.has(chain)) chains.set(chain, new Map())
  }

  drop(table: TableName, chain: string): void {
    this.#tables[table].delete(chain)
  }

  /** Whether the line is new in the kernel. The chain must have been declared. */
  add({ table, chain, line }: Edit): boolean {
    const lines = this.#lines(table, chain)
    const count = lines.get(line) ?? 0
    lines.set(line, count + 1)
    return count === 0
  }

  /** Whether the line has to leave the kernel: no VIP needs it any more. */
  remove({ table, chain, line }: Edit): boolean {
    const lines = this.#lines(table, chain)
    const count = lines.get(line) ?? 0
    if (count > 1) lines.set(line, count - 1)
    else lines.delete(line)
    return count === 1
  }

  has(table: TableName, chain: string): boolean {
    return this.#tables[table].has(chain)
  }

  /** How many lines are in it; undefined when there is no such chain. */
  size(table: TableName, chain: string): number | undefined {
    return this.#tables[table].get(chain)?.size
  }

  chains(table: TableName): Iterable<string> {
    return this.#tables[table].keys()
  }

  *lines(table: TableName): Generator<readonly [chain: string, line: string]> {
    for (const [chain, lines] of this.#tables[table])
      for (const line of lines.keys()) yield [chain, line]
  }

  #lines(table: TableName, chain: string): Map<string, number> {
    const lines = this.#tables[table].get(chain)
    if (lines === undefined) throw new Error(`no chain ${chain} in table ${table}`)
    return lines
  }
}
