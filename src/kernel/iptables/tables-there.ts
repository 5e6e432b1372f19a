import { ToolError } from '../run-tool.ts'
import type { Backend } from '../xtables/backend.ts'
import { showChains } from '../xtables/show-chains.ts'
import type { TableName } from './chain.ts'
import { kubeletFirewall } from './names.ts'
import type { Saved } from './restore-text.ts'
import { readSaved, type SavedTable } from './saved.ts'

/** Of reading 100 000 rules. */
const timeoutMs = 300_000

/**
 * What is there of both tables. With `known`, the chains of Services that this process has
 * written itself, only the chains that others put rules into are read: iptables-nft-save
 * takes 4 s for the rules of 10 000 Services, and this 20 ms.
 */
export const tablesThere = async (
  backend: Backend,
  known: Iterable<string> | undefined,
): Promise<Saved> => {
  if (known !== undefined) {
    try {
      return {
        filter: await shown(backend, 'filter', []),
        nat: await shown(backend, 'nat', known),
      }
    } catch (error) {
      // A chain of these is gone.
      if (!(error instanceof ToolError)) throw error
    }
  }
  const [filter, nat] = await Promise.all([
    saved(backend, 'filter'),
    saved(backend, 'nat'),
  ])
  return { filter, nat }
}

const saved = async (backend: Backend, table: TableName): Promise<SavedTable> =>
  readSaved(await backend.save(table, { timeoutMs }), table)

const others: Readonly<Record<TableName, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT', kubeletFirewall],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
}

const shown = async (
  backend: Backend,
  table: TableName,
  known: Iterable<string>,
): Promise<SavedTable> => {
  const text = await showChains(backend, table, others[table])
  const names = [...known].map(chain => `:${chain} - [0:0]`)
  return readSaved([`*${table}`, ...names, asSaved(text), 'COMMIT', ''].join('\n'), table)
}

/** `-P INPUT ACCEPT` and `-N CHAIN` as iptables-save has them. */
const asSaved = (text: string): string =>
  text
    .replaceAll(/^-P (\S+) (\S+)$/gm, ':$1 $2 [0:0]')
    .replaceAll(/^-N (\S+)$/gm, ':$1 - [0:0]')
