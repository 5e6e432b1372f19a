import { ToolError } from '../../kernel/run-tool.ts'
import type { Backend } from '../../kernel/xtables/backend.ts'
import { showChains } from '../../kernel/xtables/show-chains.ts'
import type { Ledger } from './ledger.ts'
import { jumps, named, own, tableNames, type TableName } from './names.ts'
import { jumpDamage, readSaved } from './saved.ts'
import type { Saved } from './restore-text.ts'
import { savedBy } from './saved-by.ts'

/**
 * What is wrong with Usher's jumps and first chains, or `whole`: whether all chains have as
 * many rules as they should; '' for nothing, and when nothing could be read.
 */
export const damageOf = async (
  backend: Backend,
  ledger: Ledger,
  whole: boolean,
): Promise<string> => {
  try {
    return await damageIn(await read(backend, whole), ledger, whole)
  } catch (error) {
    if (error instanceof ToolError) return whole ? '' : damageOf(backend, ledger, true)
    throw error
  }
}

const read = async (backend: Backend, full: boolean): Promise<Saved> => {
  if (full) return savedBy(backend)
  // One process, and no chain that is long. A chain that is missing ends it.
  const text = tableNames.map(table => {
    const chains = new Set(jumps.filter(jump => jump.table === table).map(j => j.chain))
    return showChains(backend, table, [...chains, ...firstChains[table]])
  })
  const [filter = '', nat = ''] = await Promise.all(text)
  return { filter: await readSaved(filter), nat: await readSaved(nat) }
}

const damageIn = async (saved: Saved, ledger: Ledger, full: boolean): Promise<string> => {
  for (const table of tableNames) {
    const { chains, jumps: found } = saved[table]
    const wrong = jumpDamage(table, found)
    if (wrong !== '') return `${wrong} (table ${table})`
    for (const chain of full ? ledger.chains(table) : firstChains[table]) {
      const [there, wanted] = [chains.get(chain), ledger.size(table, chain)]
      if (there === undefined) return `chain ${chain} of table ${table} is gone`
      if (there !== wanted)
        return `chain ${chain} of table ${table} has ${there} rules instead of ${wanted}`
    }
  }
  return ''
}

/** Those that packets come to first; the parts of long ones are behind them. */
const firstChains: Readonly<Record<TableName, readonly string[]>> = {
  filter: [
    named.nonLocal,
    own.input,
    own.begin,
    own.nodeOnly,
    own.notNode,
    own.output,
    own.silence,
    own.refused,
    own.refusedNodePorts,
    own.reject,
  ],
  nat: [
    named.portalsContainer,
    named.portalsHost,
    named.nodePortContainer,
    named.nodePortHost,
    own.portals,
    own.nodePorts,
  ],
}
