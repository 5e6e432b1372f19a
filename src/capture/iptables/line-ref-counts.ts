import { Uses } from '../../kernel/elements/uses.ts'
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
export class LineRefCounts {
  readonly #tables: Readonly<Record<TableName, Map<string, Uses>>> = {
    filter: new Map(),
    nat: new Map(),
  }

  /** A chain may be empty; declaring it again changes nothing. */
  declare(table: TableName, chain: string): void {
    const chains = this.#tables[table]
    if (!chains.has(chain)) chains.set(chain, new Uses())
  }

  drop(table: TableName, chain: string): void {
    this.#tables[table].delete(chain)
  }

  /** Whether the line is new in the kernel. The chain must have been declared. */
  add({ table, chain, line }: Edit): boolean {
    return this.#lines(table, chain).add(line)
  }

  /** Whether the line has to leave the kernel: no VIP needs it any more. */
  remove({ table, chain, line }: Edit): boolean {
    return this.#lines(table, chain).remove(line)
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
      for (const line of lines.names()) yield [chain, line]
  }

  #lines(table: TableName, chain: string): Uses {
    const lines = this.#tables[table].get(chain)
    if (lines === undefined) throw new Error(`no chain ${chain} in table ${table}`)
    return lines
  }
}
