import { forgetWaiting } from '../../kernel/forget-proxy-flows.ts'
import {
  deleteAbandoned,
  deleteTables,
  listTables,
  tableName,
  tableOf,
} from '../../kernel/nft/tables.ts'
import { proxyAddressOf } from '../../kernel/proxy-address.ts'
import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { holdText, silenceText } from './table-text.ts'

/** Clients who are led by a table that an earlier process has left wait, if there is one. */
export const holdFound = async (run: RunTool, family: IpFamily): Promise<void> => {
  const own = tableOf(family, tableName)
  if (!(await listTables(run, family)).has(own)) return
  await run('nft', ['-f', '-'], { input: holdText(own, true) })
}

/**
 * Takes out Usher's own table, if there is one, and those of probes that were killed. No
 * client is refused by what is left of it: what leads to the proxy address goes first, and
 * what keeps the silence there when none is led there.
 * `isThere`: it is, and goes even where nft can't list what others have. Rejects with ToolError.
 */
export const removeTables = async (
  run: RunTool,
  family: IpFamily,
  isThere = false,
): Promise<void> => {
  const own = tableOf(family, tableName)
  const all = await listTables(run, family).catch((error: unknown) => {
    if (!isThere) throw error
    return new Map([[own, []]])
  })
  if (all.has(own)) await removeOwn(run, family, own)
  await deleteAbandoned(run, all)
}

const removeOwn = async (run: RunTool, family: IpFamily, own: string): Promise<void> => {
  try {
    const input = silenceText(family, own, proxyAddressOf[family])
    await run('nft', ['-f', '-'], { input })
    await forgetWaiting(run, family)
    await deleteTables(run, [own])
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    const { message, failure, stderr } = error
    throw new ToolError(`table ${own} stays: ${message}`, failure, stderr)
  }
}
