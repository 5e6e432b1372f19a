import type { NativeMemory } from '../../ffi/syscalls.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import type { Bpf, MapDefinition } from '../bpf/bpf.ts'
import type { Change, ElementChanges } from '../elements/element-changes.ts'
import { type TableName, type WrittenTable, writtenTables } from './tables.ts'

/** A map of the kernel's, with memory for one element and for many. */
interface Table {
  readonly descriptor: number
  readonly definition: MapDefinition
  readonly key: NativeMemory
  readonly value: NativeMemory
  readonly keys: NativeMemory
  readonly values: NativeMemory
}

/** Elements that go to the kernel at once. */
const lotSize = 4096

/**
 * Writes what programs look up while they run. A client sees a VIP's list of before or the new one:
 * first comes what a list needs, then the VIP leads to it, then what nothing leads to any more goes.
 * Killed in between it leaves elements that nothing leads to, which `all` takes out.
 */
export class TableWriter {
  readonly #bpf: Bpf
  readonly #tables: Readonly<Record<WrittenTable, Table>>

  constructor(
    bpf: Bpf,
    definitions: Readonly<Record<TableName, MapDefinition>>,
    descriptors: Readonly<Record<TableName, number>>,
  ) {
    this.#bpf = bpf
    const tableOf = (name: WrittenTable): Table => {
      const definition = definitions[name]
      const { keySize, valueSize } = definition
      return {
        descriptor: descriptors[name],
        definition,
        key: bpf.allocate(keySize),
        value: bpf.allocate(valueSize),
        keys: bpf.allocate(keySize * lotSize),
        values: bpf.allocate(valueSize * lotSize),
      }
    }
    this.#tables = Object.fromEntries(
      writtenTables.map(name => [name, tableOf(name)]),
    ) as Record<WrittenTable, Table>
  }

  /** Throws when the kernel refuses; what was written by then is not known. */
  async write({ sets }: ElementChanges): Promise<void> {
    const changesOf = (name: WrittenTable) => sets.get(name) ?? new Map<string, Change>()
    for (const name of writtenTables)
      await this.#come(this.#tables[name], changesOf(name))
    for (const name of writtenTables.toReversed())
      await this.#go(this.#tables[name], changesOf(name))
  }

  /** As `write`; what else the tables have goes, and what they have already is left as it is. */
  async writeAll(changes: ElementChanges): Promise<void> {
    for (const name of writtenTables) {
      const { descriptor, definition } = this.#tables[name]
      await forEachYielding(this.#bpf.entries(descriptor, definition), ([key, value]) =>
        changes.gone({ set: name, key, value }),
      )
    }
    await this.write(changes)
  }

  async #come(table: Table, changes: ReadonlyMap<string, Change>): Promise<void> {
    const { descriptor, definition, keys, values } = table
    const { keySize, valueSize } = definition
    let count = 0
    const flush = (): void => {
      if (count > 0) this.#bpf.updateBatch(descriptor, keys, values, count)
      count = 0
    }
    await forEachYielding(changes, ([key, { gone, come }]) => {
      if (come === undefined || come === gone) return
      keys.bytes.write(key, count * keySize, 'latin1')
      values.bytes.write(come, count * valueSize, 'latin1')
      count += 1
      if (count === lotSize) flush()
    })
    flush()
  }

  async #go(table: Table, changes: ReadonlyMap<string, Change>): Promise<void> {
    await forEachYielding(changes, ([key, { gone, come }]) => {
      if (come !== undefined || gone === undefined) return
      table.key.bytes.write(key, 'latin1')
      this.#bpf.delete(table.descriptor, table.key)
    })
  }
}
