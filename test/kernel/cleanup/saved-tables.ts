import { modeOwner } from '../../../src/kernel/xtables/kube-chains.ts'
import { readTable, type SavedTable } from '../../../src/kernel/xtables/saved.ts'

/** All that `iptables-save` printed. */
export const savedTables = (text: string): Promise<readonly SavedTable[]> =>
  Promise.all(
    text.split(/^\*/m).map(part => {
      const [name = ''] = part.split('\n', 1)
      return readTable(
        part,
        name,
        modeOwner(() => false),
      )
    }),
  ).then(tables => tables.filter(({ name }) => /^\w+$/.test(name)))
