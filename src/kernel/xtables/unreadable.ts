import type { Problem } from '../../model/snapshot.ts'
import { familyWords } from '../nft/tables.ts'
import type { Backend } from './backend.ts'
import { ToolError } from '../run-tool.ts'
import type { SavedTable } from './saved.ts'
import { listed, unlisted } from './table-now.ts'

/** Tables that iptables can't list, as of the last look at each. */
export class Unreadable {
  readonly #problems = new Map<string, Problem>()

  /** Where it has been read well, `look` says so. */
  note({ family }: Backend, { name, partial }: SavedTable): void {
    if (partial === undefined) return
    const table = `table ${familyWords(family).family} ${name}`
    this.#problems.set(name, {
      object: `iptables ${table}`,
      field: partial.unreadable.join(', '),
      message: `has rules that iptables can't read, as nft made them: Usher keeps up its own, but can't tell all that is there; move those rules to a table of their own (nft list ${table})`,
    })
  }

  /** The same where no more is known than that what leads to Usher's own can be read. */
  async look(backend: Backend, table: SavedTable): Promise<void> {
    try {
      const text = await listed(backend, table.name)
      if (text === undefined) this.note(backend, { ...table, partial: unlisted })
      else this.#problems.delete(table.name)
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      // It is not known now, and looked at again.
    }
  }

  problems(): readonly Problem[] {
    return [...this.#problems.values()]
  }
}
